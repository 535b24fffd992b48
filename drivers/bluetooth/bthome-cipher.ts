// Encrypted BTHome v2 (bthome.io/encryption): AES-128-CCM with a key the user has from the device, a 4-byte check and a
// counter that only goes up. What fails: a wrong key or changed bytes (the check does not hold), an advertisement that was
// recorded and sent again (its counter is not new). A device that lost its battery starts at 0 again: a counter below 100
// is taken after half a minute of silence, so a recording of its first minutes cannot be slipped in between living ones.
import { createDecipheriv } from 'node:crypto'

const COUNTER_BYTES = 4
const CHECK_BYTES = 4
const RESTART_BELOW = 100
const RESTART_QUIET_MS = 30_000
/** the service's UUID 0xFCD2 as it lies in the air */
const UUID = [0xd2, 0xfc] as const

export class BthomeCipher {
  readonly #key: Uint8Array
  #counter = -1
  #at = 0

  /** `key`: 16 bytes */
  constructor(key: Uint8Array) {
    this.#key = key
  }

  /**
   * The objects inside `data` (ciphertext, counter, check) behind the device information byte `info`; `address` as it is
   * written. A text says why not: 'repeat' is the same advertisement again, which every device sends several times.
   */
  open(
    info: number,
    data: Uint8Array,
    address: Uint8Array,
    now: number,
  ): Uint8Array | 'repeat' | 'replay' | 'wrong key' | 'too short' {
    const end = data.length - COUNTER_BYTES - CHECK_BYTES
    if (end < 0) return 'too short'
    const counterBytes = data.subarray(end, end + COUNTER_BYTES)
    const counter = Buffer.from(counterBytes).readUInt32LE()
    if (counter === this.#counter) return 'repeat'
    const restarted = counter < RESTART_BELOW && now - this.#at >= RESTART_QUIET_MS
    if (counter < this.#counter && !restarted) return 'replay'
    const nonce = Buffer.concat([address, Buffer.from([...UUID, info]), counterBytes])
    try {
      const decipher = createDecipheriv('aes-128-ccm', this.#key, nonce, { authTagLength: CHECK_BYTES })
      decipher.setAuthTag(data.subarray(end + COUNTER_BYTES))
      const plain = decipher.update(data.subarray(0, end))
      decipher.final()
      this.#counter = counter
      this.#at = now
      return plain
    } catch {
      return 'wrong key' // the check does not hold: nothing of it may be believed, not even its counter
    }
  }
}
