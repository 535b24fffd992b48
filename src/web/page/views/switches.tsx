// What can be switched: media, outputs of sources, plugins. Switching off what links use needs a confirmation.
import { useState } from 'preact/hooks'
import { call } from '../lib/api'
import { useResource } from '../lib/resource'
import { say, sayError } from '../lib/say'
import { may } from '../lib/session'
import type { Medium, Output } from '../lib/types'
import { Card, Confirm, Empty, Loaded, Pill, Switch } from '../ui/parts'
import { WriteNote } from '../ui/writenote'
import { Plugins } from './plugins'

const REFRESH_MS = 5_000

function MediumRow({ medium, reload }: { medium: Medium; reload(): void }) {
  const { name, layer, enabled, driver = true, links = [], config_key } = medium
  const [busy, setBusy] = useState(false)
  const [asking, setAsking] = useState(false)
  const allowed = may('operator') && !busy

  async function act(body: object, done: string): Promise<void> {
    setBusy(true)
    try {
      const { ok } = await call<{ ok: boolean }>('POST', '/api/transport', { body: { medium: name, ...body } })
      say(ok ? done : `${name} could not be reloaded`, !ok)
    } catch (thrown) {
      sayError(thrown, name)
    }
    setBusy(false)
    reload()
  }
  const toggle = (on: boolean): Promise<void> => act({ enabled: on }, `${name} is ${on ? 'on' : 'off'}`)

  return (
    <li>
      <div class="row">
        <div>
          <h3>{name}</h3>
          <p class="counts">
            layer {layer.replace(/^L/, '')}
            {!driver && ' · no driver in this build'}
            {config_key && <span class="roomy"> · {config_key}</span>}
          </p>
        </div>
        <div class="buttons">
          <button
            type="button"
            class="plain"
            disabled={!allowed || !enabled}
            aria-label={`Reload ${name}`}
            onClick={() => void act({ reload: true }, `${name} was reloaded`)}
          >
            Reload
          </button>
          <Switch
            label={name}
            on={enabled}
            disabled={!allowed || !driver}
            onChange={on => (!on && links.length > 0 ? setAsking(true) : void toggle(on))}
          />
        </div>
      </div>
      {links.length > 0 && (
        <ul class="inline">
          {links.map(link => (
            <li key={link.name} title={link.reason}>
              {link.name} <Pill state={link.state} />
            </li>
          ))}
        </ul>
      )}
      {asking && (
        <Confirm
          title={`Switch ${name} off?`}
          action="Switch off"
          onDone={yes => {
            setAsking(false)
            if (yes) void toggle(false)
          }}
        >
          <p>These links use it and will go down: {links.map(link => link.name).join(', ')}.</p>
        </Confirm>
      )}
    </li>
  )
}

function Media() {
  const list = useResource<{ items: readonly Medium[] }>('/api/transport', REFRESH_MS)
  return (
    <Card title="Media">
      <Loaded from={list} what="media">
        {({ items }) => (
          <ul class="rows">
            {items.map(medium => (
              <MediumRow key={medium.name} medium={medium} reload={list.reload} />
            ))}
          </ul>
        )}
      </Loaded>
    </Card>
  )
}

function OutputRow({ output, reload }: { output: Output; reload(): void }) {
  const { source, name, value, reason } = output
  const [busy, setBusy] = useState(false)
  const full = `${source}.${name}`
  async function set(on: boolean): Promise<void> {
    setBusy(true)
    try {
      await call('POST', '/api/outputs', { body: { name: full, value: on ? 1 : 0 } })
      say(`${full} is ${on ? 'on' : 'off'}`)
    } catch (thrown) {
      sayError(thrown, full)
    }
    setBusy(false)
    reload()
  }
  return (
    <li class="row">
      <div>
        <h3>{name}</h3>
        <p class="counts">
          {[source, value === null ? 'state unknown' : '', reason ?? ''].filter(Boolean).join(' · ')}
        </p>
      </div>
      <Switch label={full} on={value === 1} disabled={busy || !may('admin')} onChange={on => void set(on)} />
    </li>
  )
}

function Outputs() {
  const list = useResource<{ items: readonly Output[] }>('/api/outputs', REFRESH_MS)
  return (
    <Card title="Outputs">
      <Loaded from={list} what="outputs">
        {({ items }) =>
          items.length === 0 ? (
            <Empty>No outputs configured. Add outputs to a gpio source in gateway.sources.</Empty>
          ) : (
            <ul class="rows">
              {items.map(output => (
                <OutputRow key={`${output.source}.${output.name}`} output={output} reload={list.reload} />
              ))}
            </ul>
          )
        }
      </Loaded>
    </Card>
  )
}

export function Switches() {
  return (
    <div class="stack">
      <WriteNote needs="operator" what="switching" />
      <div class="columns">
        <Media />
        <div class="stack">
          <Plugins />
          <Outputs />
        </div>
      </div>
    </div>
  )
}
