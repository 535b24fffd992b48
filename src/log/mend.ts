// Repairs a damaged segment: the damaged pieces are copied to `damaged/`, then the file is rewritten without them (or
// truncated, if only its end is damaged). The caller ensures that the ledger is on flash first. If the disk refuses, the file
// stays unchanged; readers skip the damage, and the next start tries again.
import { join } from 'node:path'
import { atomicWrite } from '../lib/atomic'
import type { Files } from '../lib/files'
import { noLosses } from './ledger'
import type { RecoveryFinding } from './recovery'
import { decodeHeader, encodeHeader } from './segment'
import { onMedium } from './segments'

const DAMAGED = 'damaged'

/** Copies the damaged pieces; at most `cap` bytes are kept, newest first. Returns the bytes now kept. */
export function quarantine(files: Files, dir: string, { segment, bytes, scan }: RecoveryFinding, cap: number): number {
  const damagedDir = join(dir, DAMAGED)
  const pieces = scan.pieces.map(piece => ({ offset: piece.offset, length: piece.length }))
  const head = decodeHeader(bytes)
  if (!head && scan.pieces[0]?.offset !== 0) pieces.push({ offset: 0, length: scan.sound[0] ?? bytes.length })
  files.mkdir(damagedDir)
  for (const { offset, length } of pieces) {
    const piece = bytes.subarray(offset, offset + Math.min(length, cap))
    if (piece.length === 0 || !piece.some(byte => byte !== 0)) continue
    atomicWrite(join(damagedDir, `${segment.name}-${String(offset).padStart(9, '0')}.bin`), piece, files)
  }
  return prune(files, dir, cap)
}

/** The space of the kept pieces on the medium, after the oldest beyond `cap` were removed. */
export function prune(files: Files, dir: string, cap = Number.POSITIVE_INFINITY): number {
  const damagedDir = join(dir, DAMAGED)
  if (!files.exists(damagedDir)) return 0
  const kept = files
    .list(damagedDir)
    .sort()
    .map(name => ({ path: join(damagedDir, name), size: onMedium(files.size(join(damagedDir, name))) }))
  let total = kept.reduce((sum, piece) => sum + piece.size, 0)
  for (const piece of kept) {
    if (total <= cap) break
    files.remove(piece.path)
    total -= piece.size
  }
  return total
}

/** Rewrites the segment with its intact records only. Returns its new size, 0 if none was left and the file was removed. */
export function rewrite(files: Files, finding: RecoveryFinding, boot: number, previousLast: number): number {
  const { segment, bytes, scan } = finding
  if (scan.records === 0) {
    files.remove(segment.path)
    return 0
  }
  const head = decodeHeader(bytes)
  const cut = scan.sound[1]!
  if (head && scan.sound.length === 2 && scan.sound[0] === head.length) {
    if (cut < bytes.length) files.truncate(segment.path, cut)
    return cut
  }
  const header = head
    ? bytes.subarray(0, head.length)
    : encodeHeader({
        boot: scan.boot || boot,
        base: segment.base,
        previousLast,
        created: segment.created,
        snapshot: { cursors: {}, totals: noLosses(), ranges: [], segments: [], partial: true },
      })
  const parts: Uint8Array[] = [header]
  for (let k = 0; k < scan.sound.length; k += 2) parts.push(bytes.subarray(scan.sound[k], scan.sound[k + 1]))
  const whole = Buffer.concat(parts)
  atomicWrite(segment.path, whole, files)
  segment.headerLength = header.length
  return whole.length
}
