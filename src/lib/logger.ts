// Log lines are written to stderr and to a bounded ring in RAM (which the user interfaces show). A storm of the same
// line is collapsed: the first is written immediately, the repeats are counted and reported a minute later (R7). No
// errors: a broken stderr is ignored, because logging must never end a gateway.

import { timeText } from './clock'
import { maskText } from './secrets'

type Level = 'debug' | 'info' | 'warn' | 'error'
const ORDER: Record<Level, number> = { debug: 0, info: 1, warn: 2, error: 3 }

export interface LogLine {
  readonly at: number
  readonly level: Level
  readonly scope: string
  readonly text: string
  readonly repeats: number
}

export interface Logger {
  debug(text: string): void
  info(text: string): void
  warn(text: string): void
  error(text: string): void
  /** a logger for one room, with its name as the prefix of each line */
  child(scope: string): Logger
  /** sets the level of this logger and of every child; null restores the original one */
  setLevel(level: Level | null): void
  /** the newest lines, oldest first */
  recent(): readonly LogLine[]
}

interface LoggerOptions {
  level?: Level
  write?: (line: string) => void
  now?: () => number
  ringSize?: number
  collapseMs?: number
}

/** A line, the number of repeats since it was written, and the timer that writes them. */
interface Storm {
  since: number
  repeats: number
  readonly line: LogLine
  timer?: NodeJS.Timeout
}

export function createLogger({
  level: first = 'info',
  write = line => {
    process.stderr.write(line)
  },
  now = Date.now,
  ringSize = 500,
  collapseMs = 60_000,
}: LoggerOptions = {}): Logger {
  let level = first
  const ring: LogLine[] = []
  const storms = new Map<string, Storm>()
  const out = (line: LogLine): void => {
    ring.push(line)
    if (ring.length > ringSize) ring.shift()
    const more = line.repeats > 0 ? ` (${line.repeats} more like this)` : ''
    write(`${timeText(line.at)} ${line.level.toUpperCase().padEnd(5)} ${line.scope}: ${line.text}${more}\n`)
  }
  const log = (lineLevel: Level, scope: string, said: string): void => {
    if (ORDER[lineLevel] < ORDER[level]) return
    const text = maskText(said)
    const at = now()
    const key = `${lineLevel} ${scope} ${text}`
    const storm = storms.get(key)
    if (storm && at - storm.since < collapseMs) {
      storm.repeats++
      storm.timer ??= setTimeout(() => report(storm), storm.since + collapseMs - at).unref()
      return
    }
    if (storms.size > 200) {
      for (const [k, s] of storms) if (at - s.since >= collapseMs) storms.delete(k)
      if (storms.size > 200) {
        for (const other of storms.values()) report(other)
        storms.clear()
      }
    }
    clearTimeout(storm?.timer)
    const line = { at, level: lineLevel, scope, text, repeats: storm?.repeats ?? 0 }
    storms.set(key, { since: at, repeats: 0, line })
    out(line)
  }
  /** Writes the repeats that are not written yet. */
  const report = (storm: Storm): void => {
    clearTimeout(storm.timer)
    delete storm.timer
    const { repeats, line } = storm
    storm.repeats = 0
    storm.since = now()
    if (repeats > 0) out({ ...line, at: storm.since, repeats })
  }
  const scoped = (scope: string): Logger => ({
    debug: text => log('debug', scope, text),
    info: text => log('info', scope, text),
    warn: text => log('warn', scope, text),
    error: text => log('error', scope, text),
    child: name => scoped(name),
    setLevel: next => {
      level = next ?? first
    },
    recent: () => ring.slice(),
  })
  return scoped('os-node')
}

/** Logs nothing; the default of library classes. */
export const silentLogger: Logger = /* @__PURE__ */ createLogger({ write: () => undefined })
