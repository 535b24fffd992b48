// Everything that can be switched: media, outputs of sources, plugins. Disabling something that links use needs a
// confirmation.
import { useState } from 'preact/hooks'
import { useAction } from '../lib/action'
import { call } from '../lib/api'
import { useResource } from '../lib/resource'
import { may } from '../lib/session'
import type { MediumState, OutputState } from '../lib/types'
import { Button, Card, Confirm, Items, Pill, Switch } from '../ui/parts'
import { WriteNote } from '../ui/writenote'
import { Plugins } from './plugins'

const REFRESH_MS = 5_000

function MediumRow({ medium, reload }: { medium: MediumState; reload(): void }) {
  const { name, layer, enabled, driver = true, links = [], config_key } = medium
  const { busy, act } = useAction(reload)
  const [confirming, setConfirming] = useState(false)
  const allowed = may('operator') && !busy

  const change = (body: object, done: string): Promise<void> =>
    act(name, async () => {
      await call('POST', '/api/transport', { body: { medium: name, ...body } })
      return done
    })
  const toggle = (on: boolean): Promise<void> => change({ enabled: on }, `${name} is ${on ? 'on' : 'off'}`)

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
          <Button
            disabled={!allowed || !enabled}
            aria-label={`Reload ${name}`}
            onClick={() => void change({ reload: true }, `${name} was reloaded`)}
          >
            Reload
          </Button>
          <Switch
            label={name}
            on={enabled}
            disabled={!allowed || !driver}
            onChange={on => (!on && links.length > 0 ? setConfirming(true) : void toggle(on))}
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
      {confirming && (
        <Confirm
          title={`Switch ${name} off?`}
          action="Switch off"
          onYes={() => void toggle(false)}
          onClose={() => setConfirming(false)}
        >
          <p>These links use it and will go down: {links.map(link => link.name).join(', ')}.</p>
        </Confirm>
      )}
    </li>
  )
}

function Media() {
  const list = useResource<{ items: readonly MediumState[] }>('/api/transport', REFRESH_MS)
  return (
    <Card title="Media">
      <Items from={list} what="media" of={({ items }) => items} empty="This gateway has no media.">
        {medium => <MediumRow key={medium.name} medium={medium} reload={list.reload} />}
      </Items>
    </Card>
  )
}

function OutputRow({ output, reload }: { output: OutputState; reload(): void }) {
  const { source, name, value, reason } = output
  const { busy, act } = useAction(reload)
  const full = `${source}.${name}`
  const set = (on: boolean): Promise<void> =>
    act(full, async () => {
      await call('POST', '/api/outputs', { body: { name: full, value: on ? 1 : 0 } })
      return `${full} is ${on ? 'on' : 'off'}`
    })
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
  const list = useResource<{ items: readonly OutputState[] }>('/api/outputs', REFRESH_MS)
  return (
    <Card title="Outputs">
      <Items
        from={list}
        what="outputs"
        of={({ items }) => items}
        empty="No outputs configured. Add outputs to a gpio source in gateway.sources."
      >
        {output => <OutputRow key={`${output.source}.${output.name}`} output={output} reload={list.reload} />}
      </Items>
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
