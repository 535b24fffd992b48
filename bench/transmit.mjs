// `transmit/…` and `transmit_batch/…`: packets of a complete node of the library on the native core, one call each, and 256 items in a call of
// transmitBatch with its results. Every packet of the batches is decoded and compared with its input.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SIZES } from './peers.mjs'

const BATCH = 256
const AID = 7
/** DESIGN section 4 */
const LEAST_TIMES = 1.3
const engine_settings = {
  core_backend: 'rscore',
  diff_base: 'last',
  ...{ tx_batch_enabled: true, tx_batch_max_items: BATCH, tx_batch_window_ms: 1000 },
}

/** `rows(size)`: readings of so many sensors; `rate(run, count)`: packets per second; `check(name, packets, rows)` decodes them. */
export function benchTransmit({ Node }, { mark, put, wanted, rows, rate, check }) {
  const keysOf = size => [`transmit/diff/${size}/rscore`, `transmit_batch/diff/${size}/rscore`]
  const due = SIZES.filter(size => keysOf(size).some(wanted))
  if (due.length === 0) return
  const dir = mkdtempSync(join(tmpdir(), 'os-node-bench-transmit-'))
  const path = join(dir, 'Config.json')
  writeFileSync(path, JSON.stringify({ device_id: 'bench', assigned_id: AID, engine_settings }))
  try {
    for (const size of due) {
      const [single, batch] = keysOf(size)
      const list = rows(size)
      const parts = Array.from({ length: list.length / BATCH }, (_, k) => list.slice(k * BATCH, (k + 1) * BATCH))
      const newNode = () => new Node(path)
      const one = newNode()
      put(
        single,
        rate(() => {
          for (const row of list) one.transmitFast(row)
        }, list.length),
      )
      const node = newNode()
      const batches = () => parts.map(part => node.transmitBatch(part))
      mark(batch, rate(batches, list.length), `≥ ${LEAST_TIMES} × ${single}`)
      const last = list.at(-1)
      const first = newNode()
      const before = first.transmitFast(last)[0]
      const packets = parts.flatMap(part => first.transmitBatch(part)).map(([bytes]) => bytes)
      check(batch, [before, ...packets], [last, ...list])
      if (first.getLastBatchMetrics()?.count !== BATCH) throw new Error(`${batch}: the node makes no batches`)
    }
  } finally {
    rmSync(dir, { recursive: true, force: true })
  }
}
