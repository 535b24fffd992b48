// The Wi-Fi that a board with the SD image joins: set here, the board restarts with it. Without the image nothing is shown.
import { useRef, useState } from 'preact/hooks'
import { fieldsOf, useAction } from '../lib/action'
import { call } from '../lib/api'
import { live } from '../lib/live'
import { useStore } from '../lib/observable'
import { useResource } from '../lib/resource'
import { may } from '../lib/session'
import { Card, Confirm, Loaded, Problem } from '../ui/parts'

const REFRESH_MS = 10_000

function Shown() {
  const found = useResource<{ problem?: string }>('/api/wifi', REFRESH_MS)
  const { busy, act } = useAction(found.reload)
  const form = useRef<HTMLFormElement>(null)
  const [wifi, setWifi] = useState<Record<string, string>>()
  async function store(): Promise<string> {
    await call('POST', '/api/wifi', { body: wifi! })
    form.current?.reset()
    return `The board restarts and joins ${wifi!.ssid}`
  }
  return (
    <Card title="Wi-Fi">
      <form
        class="line"
        ref={form}
        onSubmit={event => {
          const field = fieldsOf(event)
          const filled = ['ssid', 'password', 'country'].map(name => [name, field(name)] as const)
          setWifi(Object.fromEntries(filled.filter(([, value]) => value)))
        }}
      >
        <input
          name="ssid"
          required
          maxLength={32}
          aria-label="Name of the Wi-Fi"
          placeholder="Name"
          autocapitalize="none"
          spellcheck={false}
        />
        <input
          name="password"
          type="password"
          minLength={8}
          maxLength={64}
          aria-label="Password of the Wi-Fi"
          placeholder="Password"
          autocomplete="new-password"
        />
        <input
          name="country"
          pattern="[A-Z]{2}"
          maxLength={2}
          size={7}
          aria-label="Country of the board"
          placeholder="Country, as DE"
        />
        <button type="submit" class="plain" disabled={busy || !may('admin')}>
          Join
        </button>
      </form>
      <Loaded from={found} what="the Wi-Fi">
        {({ problem }) => (problem === undefined ? null : <Problem>Not stored: {problem}</Problem>)}
      </Loaded>
      {wifi && (
        <Confirm
          title={`Join ${wifi.ssid}?`}
          action="Restart"
          onYes={() => void act('The Wi-Fi was not stored', store)}
          onClose={() => setWifi(undefined)}
        >
          <p>
            The board restarts. If it cannot join this Wi-Fi and has no cable, it opens a Wi-Fi of its own again after
            two minutes.
          </p>
        </Confirm>
      )}
    </Card>
  )
}

export function Wifi() {
  return useStore(live).dashboard?.service?.updates ? <Shown /> : null
}
