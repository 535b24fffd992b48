// Encrypted BTHome v2 (bthome.io/encryption): AES-128-CCM with a key that the user reads from the device, a 4-byte
// check value and a counter that only increases. Errors: a wrong key or changed bytes (the check fails); a recorded
// advertisement that is sent again (its counter is not new). After a change of battery a device starts at 0 again: a
// counter below 100 is accepted after half a minute of silence, so that a recording of the first minutes cannot be
// inserted between live advertisements.
import { createDecipheriv } from 'node:crypto'

const COUNTER_BYTES = 4
const CHECK_BYTES = 4
const RESTART_BELOW = 100
const RESTART_QUIET_MS = 30_000
/** the service's UUID 0xFCD2 in transmission order */
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
   * Decrypts the objects in `data` (ciphertext, counter, check), which follow the device information byte `info`;
   * `address` in text form. A string result is the reason for a refusal: 'repeat' is the same advertisement again,
   * since every device sends it several times.
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
      return 'wrong key' // the check failed: no part of the data can be trusted, not even the counter
    }
  }
}
