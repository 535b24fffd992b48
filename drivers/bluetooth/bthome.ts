// BTHome v2 (bthome.io/format): service data of UUID 0xFCD2, objects in little-endian order, plain or encrypted.
// Errors: another version; an encrypted device without a key, or a plain one with a key (an attacker must not bypass
// the key by sending plain data). An unknown object ends the parsing, because its length is unknown; the objects before
// it are kept.
import { addressBytes, serviceData } from './ad'
import type { BthomeCipher } from './bthome-cipher'
import { BUTTON, DIMMER, objectType, PACKET_ID, SKIPPED, VARIABLE } from './bthome-objects'
import type { Decoder, Emit, Verdict } from './codec'

const SERVICE = 0xfcd2
const ENCRYPTED = 0x01
/** the device's address follows the information byte, six bytes */
const ADDRESS_INCLUDED = 0x02
const ADDRESS_BYTES = 6
const VERSION = 2
/** without a packet id or counter, equal bytes within this time count as one event */
const SAME_EVENT_MS = 2000

/** Called for each object of a packet. `raw` is the number as sent. */
type OnObject = (id: number, raw: number) => void

/** Walks the objects of a packet; false if the packet was truncated or had an unknown object. */
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
  /** events since this link was opened, by channel; the channel of a dimmer is the sum of its steps */
  readonly #events = new Map<string, number>()

  /** `cipher`: for a device that encrypts. The caller keeps it when the link is reopened, so that its counter continues. */
  constructor(cipher?: BthomeCipher) {
    this.#cipher = cipher
  }

  decode(data: Uint8Array, address: string, _rssi: number | null, now: number, emit: Emit): Verdict {
    const body = serviceData(data, SERVICE)
    if (!body || body.length === 0) return null
    const info = body[0]!
    if (info >> 5 !== VERSION) return `version ${info >> 5} of BTHome; only 2 is read`
    const encrypted = (info & ENCRYPTED) !== 0
    if (encrypted && !this.#cipher) return 'it encrypts: set its bind_key'
    if (!encrypted && this.#cipher) return 'it sends plaintext although a bind_key is set'
    const own = (info & ADDRESS_INCLUDED) === 0
    const from = own ? 1 : 1 + ADDRESS_BYTES
    if (body.length < from) return 'too short'
    // the address is sent last byte first
    const bytes = own ? addressBytes(address) : Buffer.from(body.subarray(1, from)).reverse()
    const content = body.subarray(from)
    const objects = this.#cipher ? this.#cipher.open(info, content, bytes, now) : content
    if (objects === 'repeat') return ''
    if (objects === 'replay') return 'an old advertisement sent again'
    if (typeof objects === 'string') return objects === 'wrong key' ? 'the bind_key does not fit' : objects
    return this.#report(objects, this.#isRepeat(objects, now), emit)
  }

  #report(objects: Uint8Array, repeat: boolean, emit: Emit): Verdict {
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
    const happened = what === 0 ? 0 : 1 // 0: no event; it is sent together with the events of other buttons
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

  /** A device sends each packet several times: repeats have the same packet id, or else the same bytes within a moment. */
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
