// BTHome v2 (bthome.io/format): service data of UUID 0xFCD2, objects in little-endian order, plain or encrypted. What fails:
// another version, an encrypted device without a key and the other way round (an attacker must not get around the key by
// sending plainly), an unknown object: what came before it counts, since its length is not known either.
import { addressBytes, serviceData } from './ad'
import type { BthomeCipher } from './bthome-cipher'
import { BUTTON, DIMMER, objectType, PACKET_ID, SKIPPED, VARIABLE } from './bthome-objects'
import type { Decoder, Emit, Verdict } from './codec'

const SERVICE = 0xfcd2
const ENCRYPTED = 0x01
/** six bytes after the information byte are the address of the device */
const ADDRESS_INCLUDED = 0x02
const ADDRESS_BYTES = 6
const VERSION = 2
/** without a packet id or a counter, the same bytes within this time are one event */
const SAME_EVENT_MS = 2000

/** One object of a packet. `raw` is the number as sent. */
type OnObject = (id: number, raw: number) => void

/** Walks the objects of a packet; false when it ended in the middle or at an unknown object. */
function eachObject(bytes: Uint8Array, onObject: OnObject): boolean {
  for (let at = 0; at < bytes.length; ) {
    const id = bytes[at]!
    const type = objectType(id)
    const skipped = VARIABLE.has(id) ? 1 + (bytes[at + 1] ?? bytes.length) : SKIPPED.get(id)
    const length = id === PACKET_ID ? 1 : (type?.bytes ?? skipped)
    if (length === undefined || at + 1 + length > bytes.length) return false
    if (type || id === PACKET_ID) onObject(id, little(bytes, at + 1, length, type?.signed ?? false))
    at += 1 + length
  }
  return true
}

function little(bytes: Uint8Array, at: number, length: number, signed: boolean): number {
  let value = 0
  for (let k = length - 1; k >= 0; k--) value = value * 256 + bytes[at + k]!
  const span = 256 ** length
  return signed && value >= span / 2 ? value - span : value
}

export class BthomeDecoder implements Decoder {
  readonly #cipher: BthomeCipher | undefined
  #packetId = -1
  #lastBytes = ''
  #lastAt = Number.NEGATIVE_INFINITY
  /** events since this link was opened, by channel; a dimmer's own channel is the sum of its steps */
  readonly #events = new Map<string, number>()

  /** `cipher`: for a device that encrypts. It outlives the decoder, so that its counter outlives a link that is opened anew. */
  constructor(cipher?: BthomeCipher) {
    this.#cipher = cipher
  }

  decode(data: Uint8Array, address: string, _rssi: number | null, now: number, emit: Emit): Verdict {
    const body = serviceData(data, SERVICE)
    if (!body || body.length === 0) return null
    const info = body[0]!
    if (info >> 5 !== VERSION) return `version ${info >> 5} of BTHome; only 2 is read`
    const encrypted = (info & ENCRYPTED) !== 0
    if (encrypted && !this.#cipher) return 'it encrypts: give its bind_key'
    if (!encrypted && this.#cipher) return 'it sends plainly although a bind_key is set'
    const own = (info & ADDRESS_INCLUDED) === 0
    const from = own ? 1 : 1 + ADDRESS_BYTES
    if (body.length < from) return 'too short'
    // the last byte comes first on the air
    const bytes = own ? addressBytes(address) : Buffer.from(body.subarray(1, from)).reverse()
    const content = body.subarray(from)
    const objects = this.#cipher ? this.#cipher.open(info, content, bytes, now) : content
    if (objects === 'repeat') return ''
    if (objects === 'replay') return 'an old advertisement sent again'
    if (typeof objects === 'string') return objects === 'wrong key' ? 'the bind_key does not fit' : objects
    return this.#tell(objects, this.#isRepeat(objects, now), emit)
  }

  #tell(objects: Uint8Array, repeat: boolean, emit: Emit): Verdict {
    const seen = new Map<string, number>()
    const whole = eachObject(objects, (id, raw) => {
      const type = objectType(id)
      if (!type) return
      const n = (seen.get(type.key) ?? 0) + 1
      seen.set(type.key, n)
      const suffix = n === 1 ? '' : `_${n}`
      if (type.kind === 'event') {
        if (!repeat) this.#event(id, raw, suffix, emit)
      } else emit(`${type.key}${suffix}`, (raw * type.multiply) / type.divide)
    })
    return whole || seen.size > 0 ? '' : 'no object that is known'
  }

  #event(id: number, raw: number, suffix: string, emit: Emit): void {
    const what = raw & 0xff
    const happened = what === 0 ? 0 : 1 // 0: nothing happened, sent along with other buttons
    if (id === BUTTON) {
      emit(`button${suffix}`, what)
      emit(`button_count${suffix}`, this.#add(`button${suffix}`, happened))
    } else if (id === DIMMER) {
      const steps = raw >> 8
      emit(`dimmer${suffix}`, this.#add(`dimmer${suffix}`, what === 1 ? -steps : what === 2 ? steps : 0))
      emit(`dimmer_count${suffix}`, this.#add(`dimmer_count${suffix}`, happened))
    }
  }

  #add(key: string, by: number): number {
    const sum = (this.#events.get(key) ?? 0) + by
    this.#events.set(key, sum)
    return sum
  }

  /** A device sends each packet several times: its packet id tells, else the bytes within a moment do. */
  #isRepeat(objects: Uint8Array, now: number): boolean {
    let packetId = -1
    eachObject(objects, (id, raw) => {
      if (id === PACKET_ID) packetId = raw
    })
    const bytes = packetId < 0 && !this.#cipher ? Buffer.from(objects).toString('latin1') : ''
    const repeat =
      packetId >= 0
        ? packetId === this.#packetId
        : bytes !== '' && bytes === this.#lastBytes && now - this.#lastAt < SAME_EVENT_MS
    this.#packetId = packetId
    this.#lastBytes = bytes
    this.#lastAt = now
    return repeat
  }
}
