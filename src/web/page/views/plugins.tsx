// Service plugins: load, start, stop, enable at the start of the gateway, and their own commands.
import { useState } from 'preact/hooks'
import { counted } from '../format'
import { fieldsOf, useAction } from '../lib/action'
import { type ApiError, asApiError, call } from '../lib/api'
import { wordsOf } from '../lib/command-words'
import { useResource } from '../lib/resource'
import { may } from '../lib/session'
import type { Plugin } from '../lib/types'
import { Button, Card, Confirm, Items, Problem, Switch } from '../ui/parts'
import { TreeView } from '../ui/tree'

const REFRESH_MS = 5_000

/** the service that serves the page */
const OWN = 'web_user'

type Action = 'load' | 'start' | 'stop' | 'set_enabled'
const DONE: Record<Action, string> = {
  load: 'was loaded',
  start: 'was started',
  stop: 'was stopped',
  set_enabled: 'was changed',
}

type Answer = Readonly<Record<string, unknown>>

/** A command's output: most print one JSON document. */
function printed(stdout: unknown): unknown {
  try {
    return JSON.parse(String(stdout))
  } catch {
    return stdout
  }
}

function Command({ name }: { name: string }) {
  const [state, setState] = useState<{ busy?: boolean; answer?: Answer; error?: ApiError }>({})
  const id = `plugin-${name}`
  async function run(event: SubmitEvent): Promise<void> {
    const [sub_cmd, ...args] = wordsOf(fieldsOf(event)('words'))
    setState({ busy: true })
    try {
      const answer = await call<Answer>('POST', '/api/plugins', {
        body: { plugin: name, action: 'cmd', sub_cmd, args },
      })
      setState({ answer })
    } catch (thrown) {
      const error = asApiError(thrown)
      // a failed command includes its output
      setState({ error, answer: 'exit_code' in error.body ? { ...error.body } : undefined })
    }
  }
  const { busy, answer, error } = state
  return (
    <details>
      <summary>Run a command</summary>
      <form class="line" onSubmit={event => void run(event)}>
        <label class="hidden" for={id}>
          Command of {name}
        </label>
        <input id={id} name="words" required placeholder="status" autocapitalize="none" spellcheck={false} />
        <button type="submit" class="plain" disabled={busy}>
          Run
        </button>
      </form>
      {error && <Problem>{error.message}</Problem>}
      {answer && (
        <div class="gap-above">
          <p class="counts">exit code {String(answer.exit_code ?? 0)}</p>
          <TreeView value={printed(answer.stdout)} />
          {answer.stderr ? <pre class="error">{String(answer.stderr)}</pre> : null}
        </div>
      )}
    </details>
  )
}

function PluginRow({ plugin, reload }: { plugin: Plugin; reload(): void }) {
  const { name, summary, mode, enabled, mounted, loaded, running, failures = 0, config_prefix, error } = plugin
  const { busy, act: attempt } = useAction(reload)
  const [confirming, setConfirming] = useState<'' | 'stop' | 'disable'>('')
  const act = (action: Action, more: object = {}): Promise<void> =>
    attempt(name, async () => {
      await call('POST', '/api/plugins', { body: { plugin: name, action, ...more } })
      return `${name} ${DONE[action]}`
    })
  const enable = (on: boolean): void => void act('set_enabled', { enabled: on })
  const button = (action: 'load' | 'start' | 'stop', text: string) => (
    <Button
      disabled={busy || !may('operator')}
      aria-label={`${text} ${name}`}
      onClick={() => (action === 'stop' && name === OWN ? setConfirming('stop') : void act(action))}
    >
      {text}
    </Button>
  )
  return (
    <li>
      <div class="row">
        <div>
          <h3>{name}</h3>
          {summary && <p class="note">{summary}</p>}
          <p class="counts">
            <span class="roomy">{config_prefix} · </span>
            {[
              mode,
              running ? 'running' : 'stopped',
              mounted ? 'mounted' : '',
              loaded ? 'loaded' : '',
              failures > 0 ? counted(failures, 'failure') : '',
            ]
              .filter(Boolean)
              .join(' · ')}
          </p>
        </div>
        <div class="labelled">
          <span class="quiet small" aria-hidden="true">
            enabled
          </span>
          <Switch
            label={`${name} enabled`}
            on={enabled}
            disabled={busy || !may('admin')}
            onChange={on => (!on && name === OWN ? setConfirming('disable') : enable(on))}
          />
        </div>
      </div>
      {error && <p class="error">{error}</p>}
      <div class="buttons gap-above">
        {/* the same button in the same place, so that the keyboard focus stays on it */}
        {running ? button('stop', 'Stop') : button('start', 'Start')}
        {!loaded && button('load', 'Load')}
      </div>
      {may('admin') && <Command name={name} />}
      {confirming !== '' && (
        <Confirm
          title={confirming === 'stop' ? `Stop ${name}?` : `Disable ${name}?`}
          action={confirming === 'stop' ? 'Stop' : 'Disable'}
          onYes={() => (confirming === 'stop' ? void act('stop') : enable(false))}
          onClose={() => setConfirming('')}
        >
          <p>This plugin serves this page. Only the command line on the gateway can start it again.</p>
        </Confirm>
      )}
    </li>
  )
}

export function Plugins() {
  const list = useResource<{ items: readonly Plugin[] }>('/api/plugins', REFRESH_MS)
  return (
    <Card title="Plugins">
      <Items from={list} what="plugins" of={({ items }) => items} empty="This gateway has no plugins.">
        {plugin => <PluginRow key={plugin.name} plugin={plugin} reload={list.reload} />}
      </Items>
    </Card>
  )
}
