// watch: the state of one part, again and again. A row each interval says what it is now and which keys changed since the row
// before. It ends with --duration or when it is stopped, which is no failure. In a running gateway
// the gateway's own state is watched, without one the files.

import { setTimeout as sleep } from 'node:timers/promises'
import { isObject } from '../../lib/objects'
import { numberText } from '../../units/display'
import type { CommandContext } from '../context'
import type { Paint, Verb } from '../verb'
import { pipelineFacts } from './info'

type State = Record<string, unknown>

const MODULES: Record<string, (context: CommandContext) => State> = {
  config: ({ config }) => config.masked() as State,
  registry: ({ config, gateway }) => {
    const status = gateway?.status()
    return {
      assigned_id: config.config.assigned_id,
      ...(status && { received: status.received, ids: status.ids ?? null, shared_ids: status.shared_ids ?? [] }),
    }
  },
  transport: ({ transport, gateway }) => ({
    items: Object.fromEntries(
      transport()
        .view()
        .items.map(({ name, enabled, driver, links }) => [name, { enabled, driver, links }]),
    ),
    links: gateway?.status().links ?? {},
  }),
  pipeline: pipelineFacts,
}

interface Row {
  /** UNIX ms */
  readonly at: number
  readonly module: string
  /** dotted keys; null in the first row, where all is new */
  readonly changed: readonly string[] | null
  readonly state: State
}

/** Dotted keys of everything that is no object. */
function flat(value: unknown, path = '', into = new Map<string, string>()): Map<string, string> {
  if (isObject(value) && Object.keys(value).length > 0)
    for (const [name, item] of Object.entries(value)) flat(item, path ? `${path}.${name}` : name, into)
  else into.set(path, JSON.stringify(value) ?? 'null')
  return into
}

function differences(old: Map<string, string>, now: Map<string, string>): string[] {
  return [...new Set([...old.keys(), ...now.keys()])].filter(key => old.get(key) !== now.get(key))
}

async function* rows(
  context: CommandContext,
  module: string,
  intervalMs: number,
  durationMs: number,
): AsyncGenerator<Row> {
  const { signal, config, gateway } = context
  const end = performance.now() + durationMs
  let before: Map<string, string> | undefined
  while (!signal.aborted) {
    // what another process wrote to the file since; a gateway has its own way to hear of that
    if (!gateway && before) config.reload()
    const state = MODULES[module]!(context)
    // kept as text: a part may go on changing what it showed
    const now = flat(state)
    yield { at: Date.now(), module, changed: before ? differences(before, now) : null, state }
    before = now
    const left = end - performance.now()
    // a timer may be a millisecond early
    if (durationMs > 0 && left <= 1) return
    const wait = durationMs > 0 ? Math.min(intervalMs, left) : intervalMs
    await sleep(wait, undefined, { signal }).catch(() => undefined) // stopped: the loop sees it
  }
}

/** Everything once, then the keys that changed; nothing where none did. */
function rowText({ at, module, changed, state }: Row, paint: Paint): string {
  const values = flat(state)
  const time = paint.dim(new Date(at).toTimeString().slice(0, 8))
  const line = (key: string): string => {
    const text = values.get(key) ?? 'gone'
    return `${key} = ${Number.isFinite(Number(text)) ? numberText(Number(text)) : text}`
  }
  if (changed) return changed.map(key => `${time} ${line(key)}`).join('\n')
  return [`${time} ${paint.bold(module)}`, ...[...values.keys()].map(key => `  ${line(key)}`)].join('\n')
}

export const watch: Verb = {
  name: 'watch',
  summary: 'print the state of a module and its changes',
  description: 'Prints the first state, then each change; with --json lines {at, module, changed, state}.',
  examples: ['os-node watch transport', 'os-node watch --module pipeline --interval 5 --duration 60'],
  options: {
    module: { type: 'string', value: 'MODULE', required: true, choices: Object.keys(MODULES), help: 'module to watch' },
    interval: {
      type: 'number',
      value: 'SECONDS',
      min: 0.1,
      max: 86_400,
      default: 2,
      help: 'interval between two queries',
    },
    duration: { type: 'number', value: 'SECONDS', min: 0, max: 31_536_000, default: 0, help: '0: no limit' },
  },
  operands: ['module'],
  where: 'either',
  endless: true,
  async run(context, { module, interval, duration }) {
    return { rows: rows(context, String(module), Number(interval) * 1000, Number(duration) * 1000) }
  },
  rowText,
}
