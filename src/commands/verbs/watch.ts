// watch: the state of one part at each interval. A row has the current state and the keys that changed since the
// previous row. It ends with --duration or when it is stopped, which is no failure. In a running gateway it watches the
// gateway's state, without one the files.

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

interface WatchRow {
  /** UNIX ms */
  readonly at: number
  readonly module: string
  /** dotted keys; null in the first row, where everything is new */
  readonly changed: readonly string[] | null
  readonly state: State
}

/** The dotted keys of all values that are no objects. */
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
): AsyncGenerator<WatchRow> {
  const { signal, config, gateway } = context
  const end = performance.now() + durationMs
  let before: Map<string, string> | undefined
  while (!signal.aborted) {
    // picks up changes of the file by other processes; a gateway notices them itself
    if (!gateway && before) config.reload()
    const state = MODULES[module]!(context)
    // compared as text, because the part may change the object it returned
    const now = flat(state)
    yield { at: Date.now(), module, changed: before ? differences(before, now) : null, state }
    before = now
    const left = end - performance.now()
    // a timer may fire a millisecond early
    if (durationMs > 0 && left <= 1) return
    const wait = durationMs > 0 ? Math.min(intervalMs, left) : intervalMs
    await sleep(wait, undefined, { signal }).catch(() => undefined) // stopped: the loop condition ends it
  }
}

/** The complete first state, then the changed keys; nothing if none changed. */
function rowText({ at, module, changed, state }: WatchRow, paint: Paint): string {
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
