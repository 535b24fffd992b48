// The newest lines of the gateway's log, the newest first, filtered by level and text.
import { useState } from 'preact/hooks'
import { timeText } from '../format'
import { useResource } from '../lib/resource'
import type { LogEntry } from '../lib/types'
import { Card, Check, Choice, Empty, Loaded, Search } from '../ui/parts'

const REFRESH_MS = 3_000
const LINES = 300

type Level = 'debug' | 'info' | 'warn' | 'error'
const ORDER: Record<string, number> = { debug: 0, info: 1, warn: 2, error: 3 }

function Lines({ lines }: { lines: readonly LogEntry[] }) {
  return (
    <ol class="loglines" aria-label="Log lines, newest first">
      {lines.map(({ at, level, scope, text, repeats }) => (
        <li key={`${at} ${scope} ${text}`} data-level={level}>
          <time class="nowrap quiet" dateTime={new Date(at).toISOString()}>
            {timeText(new Date(at))}
          </time>
          <span class="level">{level}</span>
          <span class="break">
            <strong>{scope}</strong> {text}
            {repeats > 0 && <span class="quiet"> ({repeats} more like this)</span>}
          </span>
        </li>
      ))}
    </ol>
  )
}

export function Log() {
  const [level, setLevel] = useState<Level>('debug')
  const [search, setSearch] = useState('')
  const [paused, setPaused] = useState(false)
  const found = useResource<{ lines: readonly LogEntry[] }>(`/api/log?lines=${LINES}`, paused ? 0 : REFRESH_MS)
  const words = search.toLowerCase().split(/\s+/).filter(Boolean)
  const fits = (line: LogEntry): boolean =>
    (ORDER[line.level] ?? 3) >= ORDER[level]! &&
    words.every(word => `${line.scope} ${line.text}`.toLowerCase().includes(word))
  return (
    <div class="stack">
      <Card>
        <div class="form">
          <div>
            <span class="label" aria-hidden="true">
              Minimum level
            </span>
            <div>
              <Choice
                label="Minimum level"
                value={level}
                choices={[
                  ['debug', 'all'],
                  ['info', 'info'],
                  ['warn', 'warn'],
                  ['error', 'error'],
                ]}
                onChoose={next => setLevel(next)}
              />
            </div>
          </div>
          <div>
            <Search id="log-search" label="Text" text={search} onText={setSearch} />
          </div>
          <Check id="log-paused" label="Pause" on={paused} onChange={setPaused} />
        </div>
      </Card>
      <Card title="Lines">
        <Loaded from={found} what="its log">
          {({ lines }) => {
            const shown = lines.filter(fits).reverse()
            return shown.length === 0 ? <Empty>No matching lines</Empty> : <Lines lines={shown} />
          }}
        </Loaded>
      </Card>
    </div>
  )
}
