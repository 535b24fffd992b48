// Helpers to inspect packets, for taps and assertions.
import type { Fact, FactDict, SensorFact } from '../../src/pipeline/fact'
import { parseFrame } from '../../src/protocol/delivery/frame'
import { crc8, crc16 } from '../../src/wire/crc'
import { FRAME_OVERHEAD, readHeader, sealFrame, writeHeader } from '../../src/wire/frame'
import type { dice } from './trace'

/** The packets in a delivery frame, or the packet itself. */
export function packetsIn(bytes: Uint8Array): Uint8Array[] {
  const frame = parseFrame(bytes)
  if (!frame) return [bytes]
  return Array.from({ length: frame.n }, () => frame.packets.view(frame.packets.u16()))
}

/** A data frame (0x3F) of AID 5 that differs with `number`. */
export function dataPacket(number: number): Uint8Array {
  const body = Buffer.from(`A.ONLINE.${number}|t>OK.K:${number}|`)
  const out = new Uint8Array(FRAME_OVERHEAD + body.length)
  const at = writeHeader(out, 0, 0x3f, 5, 1, 1_710_000_000_000 + number)
  out.set(body, at)
  sealFrame(out, 0, at, at + body.length)
  return out
}

/** Dict form → record form. Sensors end at the first index without an id, as everywhere in the protocol. */
export function dictToFact(dict: FactDict, aid: number): Fact {
  const sensors: SensorFact[] = []
  for (let n = 1; dict[`s${n}_id`] !== undefined && dict[`s${n}_id`] !== null; n++) {
    const value = dict[`s${n}_v`]
    sensors.push({
      id: String(dict[`s${n}_id`]),
      status: String(dict[`s${n}_s`] ?? 'U'),
      unit: String(dict[`s${n}_u`] ?? ''),
      value: typeof value === 'number' ? value : null,
    })
  }
  const extras: Record<string, string> = {}
  for (const key of ['geohash', 'url', 'msg']) if (typeof dict[key] === 'string') extras[key] = dict[key]
  return {
    id: String(dict.id),
    state: String(dict.s ?? 'U'),
    tRaw: dict.t_raw ?? (dict.t ?? 0) * 1000,
    aid,
    sensors,
    ...(Object.keys(extras).length > 0 && { extras }),
  }
}

/** A frame damaged in transit, mostly with valid checksums. */
export function harmed(bytes: Uint8Array, { below, chance }: ReturnType<typeof dice>): Uint8Array {
  const out = Buffer.from(bytes)
  const header = readHeader(out)
  if (typeof header === 'string') return out
  const { body, end } = header
  for (let n = 1 + below(3); n > 0 && end > body; n--) {
    const at = body + below(end - body)
    out[at] = chance(0.5) ? below(256) : out[at]! ^ (1 << below(8))
  }
  const last = chance(0.3) && end > body ? body + below(end - body) : end
  const cut = Buffer.from(out.subarray(0, last + 3))
  if (chance(0.1)) cut[0] = 0x20 + below(90)
  if (chance(0.05)) cut.fill(0, body - 6, body)
  cut[last] = crc8(cut, body, last)
  if (chance(0.95)) cut.writeUInt16BE(crc16(cut, 0, last + 1), last + 1)
  return chance(0.03) ? cut.subarray(0, below(cut.length)) : cut
}
