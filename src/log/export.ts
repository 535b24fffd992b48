// The facts of a log folder, oldest first, read without opening the log: read-only, so that it may run in parallel with a
// gateway, whose newest records may not be visible yet, and which may drop its oldest segments meanwhile: they are skipped.
// Damaged pieces are skipped too; `log verify` reports them. Throws NOT_FOUND without a log.
import { join } from 'node:path'
import { type Files, realFiles } from '../lib/files'
import { factToDict } from '../pipeline/fact'
import { decodeRecord, recordSeq } from './decode'
import { AT_KIND, KIND_FACT } from './format'
import type { LogRecord } from './record'
import { scanSegment, segmentBase, segmentFiles, unlessDropped } from './segment'

/** A record as `log export` prints it: `{boot, seq, t_raw, …fact}`, with link and time quality. */
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

/** Rows of the facts from `from` on. `progress` gets the bytes read and the total. */
export function* exportFacts(
  dir: string,
  from: number,
  files: Files = realFiles,
  progress?: (done: number, total: number) => void,
): Generator<Record<string, unknown>> {
  const names = segmentFiles(dir, files)
  const bases = names.map(name => segmentBase(name)!)
  const wanted = names.map((name, k) => ({ path: join(dir, name), base: bases[k]!, limit: bases[k + 1] }))
  const all = wanted.filter(({ limit }) => limit === undefined || limit > from)
  const total = progress ? all.reduce((sum, { path }) => sum + (unlessDropped(() => files.size(path)) ?? 0), 0) : 0
  let done = 0
  for (const { path, base, limit } of all) {
    const bytes = unlessDropped(() => files.read(path))
    if (!bytes) continue
    const places: number[] = []
    scanSegment(bytes, { base, ...(limit !== undefined && { limit }) }, at => {
      if (bytes[at + AT_KIND] === KIND_FACT && recordSeq(bytes, at) >= from) places.push(at)
    })
    for (const at of places) yield exportRow(decodeRecord(bytes, at))
    done += bytes.length
    progress?.(done, total)
  }
}
