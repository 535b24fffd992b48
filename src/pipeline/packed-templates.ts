// A source's templates as bytes, so that a source that is silent for a while takes a fifth of the memory, or none:
// everything a receiver knows of it, including its minTimestamps and every run's kept states. Rows are written as
// differences, since readings change little. Errors: inconsistent bytes throw BAD_TEXT or a RangeError; nothing is
// guessed.
import { OsError } from '../lib/errors'
import { type MinTimestamps, newMinTimestamps } from './min-timestamps'
import { PackedReader, type PackedWriter } from './packed-bytes'
import type { MetaOf } from './slot-meta-cache'
import { readFull, type Shape, SlotHistory, shapeOf } from './slots'
import { isPlainSignature, templateText } from './text'

const VERSION = 2
/** any token: the text is made only to be parsed again */
const TOKEN = 'AAAAAAAA'

interface PackedTemplates {
  readonly epoch: number
  readonly heardAt: number
  readonly templates: Map<number, SlotHistory>
}

interface PackedSource<Scopes = Iterable<PackedTemplates>> {
  readonly stamp: number
  readonly minTimestamps: MinTimestamps
  readonly scopes: Scopes
}

export function packSource(out: PackedWriter, { stamp, minTimestamps, scopes }: PackedSource): Buffer {
  out.start()
  out.count(VERSION)
  out.float(stamp)
  out.count(minTimestamps.size)
  for (const [shape, minTimestamp] of minTimestamps) {
    out.count(shape >>> 0)
    out.float(minTimestamp.ts)
    out.count(minTimestamp.lateRun)
  }
  for (const { epoch, heardAt, templates } of scopes) {
    out.count(epoch + 2)
    out.float(heardAt)
    out.count(templates.size)
    for (const [tid, history] of templates) {
      out.count(tid)
      out.text(history.shape.signature)
      out.count(history.count)
      history.pack(out)
    }
  }
  out.count(0)
  return out.bytes()
}

/** Reverses packSource. `metaOf` returns the description of a `state.unit`. Throws if the bytes are not from packSource. */
export function unpackSource(bytes: Buffer, metaOf: MetaOf): PackedSource<PackedTemplates[]> {
  const from = new PackedReader(bytes)
  if (from.count() !== VERSION) throw new OsError('BAD_TEXT', 'packed templates of another version')
  const stamp = from.float()
  const minTimestamps = newMinTimestamps()
  for (let n = from.count(); n > 0; n--)
    minTimestamps.set(from.count() | 0, { ts: from.float(), lateRun: from.count() })
  const scopes: PackedTemplates[] = []
  for (let epoch = from.count(); epoch !== 0; epoch = from.count()) {
    const heardAt = from.float()
    const templates = new Map<number, SlotHistory>()
    for (let n = from.count(); n > 0; n--) {
      const tid = from.count()
      const history = new SlotHistory(shapeFrom(from.text(), from.count()))
      history.unpack(from, metaOf)
      templates.set(tid, history)
    }
    scopes.push({ epoch: epoch - 2, heardAt, templates })
  }
  if (!from.atEnd) throw new OsError('BAD_TEXT', 'packed templates have extra bytes at the end')
  return { stamp, minTimestamps, scopes }
}

function shapeFrom(signature: string, count: number): Shape {
  const read = readFull(templateText(signature, [], TOKEN), isPlainSignature(signature))
  if (read.signature !== signature || read.sensors.length !== count)
    throw new OsError('BAD_TEXT', 'a packed template does not fit its signature')
  return shapeOf(read)
}
