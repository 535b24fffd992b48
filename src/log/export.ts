// The facts of a log folder, oldest first, without opening it: read-only, so it may run beside a gateway, whose newest
// records it may not see yet. Damaged pieces are stepped over; `log verify` names them. Throws NOT_FOUND without a log.
import { join } from 'node:path'
import { type Files, realFiles } from '../lib/files'
import { factToDict } from '../pipeline/fact'
import { decodeRecord, recordSeq } from './decode'
import { AT_KIND, KIND_FACT } from './format'
import type { LogRecord } from './record'
import { scanSegment, segmentBase, segmentFiles } from './segment'

/** A record as `log export` prints it: `{boot, seq, t_raw, …fact}`, with link and time quality beside it. */
export function exportRow({ boot, seq, quality, medium, wallMs, fact, link }: LogRecord): Record<string, unknown> {
  const { t_raw, ...fields } = factToDict(fact!)
  return {
    boot,
    seq,
    t_raw,
    ...fields,
    source_aid: fact!.aid,
    medium,
    ...(link?.address !== undefined && { address: link.address }),
    ...(link?.rssi !== undefined && { rssi: link.rssi }),
    ...(link?.snr !== undefined && { snr: link.snr }),
    ...(link?.future && { future: true }),
    ...(link?.template_rebuilt && { template_rebuilt: true }),
    time_quality: quality,
    logged_ms: wallMs,
  }
}

/** Rows of the facts from `from` on. */
export function* exportFacts(dir: string, from: number, files: Files = realFiles): Generator<Record<string, unknown>> {
  const names = segmentFiles(dir, files)
  for (let k = 0; k < names.length; k++) {
    const next = names[k + 1]
    const limit = next === undefined ? undefined : segmentBase(next)!
    if (limit !== undefined && limit <= from) continue
    const bytes = files.read(join(dir, names[k]!))
    const places: number[] = []
    scanSegment(bytes, { base: segmentBase(names[k]!)!, ...(limit !== undefined && { limit }) }, at => {
      if (bytes[at + AT_KIND] === KIND_FACT && recordSeq(bytes, at) >= from) places.push(at)
    })
    for (const at of places) yield exportRow(decodeRecord(bytes, at))
  }
}
