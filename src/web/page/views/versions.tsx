// Versions of the SD image, and installing a new one. Elsewhere nothing is shown: only the image has slots.
import { useState } from 'preact/hooks'
import { call } from '../lib/api'
import { live } from '../lib/live'
import { useStore } from '../lib/observable'
import { useResource } from '../lib/resource'
import { say, sayError } from '../lib/say'
import { may } from '../lib/session'
import { Card, Loaded } from '../ui/parts'

interface Slots {
  slots: { slot: string; version: string | null; running: boolean; state: string }[]
  last_update?: { version: string; from: string; outcome: string; reason?: string }
  progress?: { step: string; done: number }
  problem?: string
}

const REFRESH_MS = 5_000

function Install({ busy, reload }: { busy: boolean; reload(): void }) {
  const [asking, setAsking] = useState(false)
  async function install(event: SubmitEvent): Promise<void> {
    event.preventDefault()
    const source = String(new FormData(event.currentTarget as HTMLFormElement).get('source') ?? '').trim()
    setAsking(true)
    try {
      await call('POST', '/api/update', { body: { source } })
      say('The update is fetched; the board restarts when it is written')
    } catch (thrown) {
      sayError(thrown, 'The update was not started')
    }
    setAsking(false)
    reload()
  }
  return (
    <form class="line gap-above" onSubmit={event => void install(event)}>
      <label class="hidden" for="update-source">
        Address of an update
      </label>
      <input
        id="update-source"
        name="source"
        type="url"
        required
        pattern="https?://.+"
        placeholder="https://…/os-node.update"
        autocapitalize="none"
        spellcheck={false}
      />
      <button type="submit" class="plain" disabled={busy || asking || !may('admin')}>
        Install
      </button>
    </form>
  )
}

function Shown() {
  const found = useResource<Slots>('/api/update', REFRESH_MS)
  return (
    <Card title="Versions">
      <Loaded from={found} what="versions">
        {({ slots, last_update: last, progress, problem }) => (
          <>
            <table>
              <thead>
                <tr>
                  <th scope="col">Slot</th>
                  <th scope="col">Version</th>
                  <th scope="col">State</th>
                </tr>
              </thead>
              <tbody>
                {slots.map(({ slot, version, running, state }) => (
                  <tr key={slot}>
                    <td>{slot}</td>
                    <td>{version ?? '–'}</td>
                    <td>{running ? `running, ${state}` : state}</td>
                  </tr>
                ))}
              </tbody>
            </table>
            {last && (
              <p class="quiet small">
                Last update: {last.from} → {last.version}, {last.outcome}
                {last.reason && `: ${last.reason}`}
              </p>
            )}
            {problem && (
              <p class="error" role="alert">
                Not installed: {problem}
              </p>
            )}
            {progress && (
              <p role="status">
                Installing: {progress.step} {Math.round(progress.done * 100)} %
              </p>
            )}
            <Install busy={progress !== undefined} reload={found.reload} />
          </>
        )}
      </Loaded>
    </Card>
  )
}

export function Versions() {
  return useStore(live).dashboard?.service?.updates ? <Shown /> : null
}
