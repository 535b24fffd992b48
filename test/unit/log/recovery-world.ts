// A log that was not stopped, the places of its records, and changes of its files.
import { decodeHeader, scanSegment, segmentBase } from '../../../src/log/segment'
import { DIR, factOf, LOCAL, openLog } from './helpers'
import type { MemFiles } from './memfiles'

interface Place {
  seq: number
  at: number
  end: number
}

/** The offset of each record of a segment, and the end of the last one. */
export function places(files: MemFiles, name: string): { places: Place[]; header: number; size: number } {
  const bytes = files.read(`${DIR}/${name}`)
  const found: Place[] = []
  scanSegment(bytes, { base: segmentBase(name)! }, (at, length) =>
    found.push({ seq: Number(bytes.readBigUInt64LE(at + 8)), at, end: at + length }),
  )
  const header = decodeHeader(bytes)!.length
  return { places: found, header, size: found.at(-1)?.end ?? header }
}

export function change(files: MemFiles, name: string, edit: (bytes: Buffer) => Buffer): MemFiles {
  const copy = files.copy()
  const node = copy.files.get(`${DIR}/${name}`)!
  node.data = edit(Buffer.from(node.data))
  node.durable = Buffer.from(node.data)
  return copy
}

/** A log of several segments that ended without a clean stop. */
export async function crashed(facts = 40): Promise<MemFiles> {
  const { log, files } = await openLog()
  for (let k = 0; k < facts; k++) log.appendFact(factOf(k), LOCAL)
  log.appendCursor('main', log.lastSeq)
  await log.flush()
  return files.afterPowerCut()
}

export const lostSeqs = (log: { losses: readonly { reason: string; from: number; to: number }[] }): number[] =>
  log.losses
    .filter(r => r.reason === 'damaged' || r.reason === 'torn')
    .flatMap(r => Array.from({ length: r.to - r.from + 1 }, (_, k) => r.from + k))
