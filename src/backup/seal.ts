// Seals the secrets of a backup with a passphrase: scrypt derives the key, AES-256-GCM seals, bound to the header of the
// backup.
//
// Errors: E_PASSPHRASE if it cannot be opened: wrong passphrase, or a damaged seal; none of it is used then.
import { createCipheriv, createDecipheriv, scryptSync } from 'node:crypto'
import { OsError } from '../lib/errors'
import { newSalt } from '../lib/scrypt'

const SALT = 16
const NONCE = 12
const TAG = 16
/** 64 MiB and a fraction of a second on a small board, per guess */
const COST = { N: 65_536, r: 8, p: 1, maxmem: 80 << 20 }

/** Secret files by their path in the backup, as base64; `Config.json` is the complete file. */
export type Secrets = Readonly<Record<string, string>>

const keyOf = (passphrase: string, salt: Buffer): Buffer => scryptSync(passphrase.normalize('NFC'), salt, 32, COST)

/** Salt, nonce, tag, then the sealed JSON. */
export function seal(secrets: Secrets, passphrase: string, header: Buffer): Buffer {
  const salt = newSalt(SALT)
  const nonce = newSalt(NONCE)
  const cipher = createCipheriv('aes-256-gcm', keyOf(passphrase, salt), nonce).setAAD(header)
  const sealed = Buffer.concat([cipher.update(JSON.stringify(secrets), 'utf8'), cipher.final()])
  return Buffer.concat([salt, nonce, cipher.getAuthTag(), sealed])
}

/** Throws E_PASSPHRASE. */
export function unseal(bytes: Buffer, passphrase: string, header: Buffer): Secrets {
  const salt = bytes.subarray(0, SALT)
  const nonce = bytes.subarray(SALT, SALT + NONCE)
  const tag = bytes.subarray(SALT + NONCE, SALT + NONCE + TAG)
  try {
    const decipher = createDecipheriv('aes-256-gcm', keyOf(passphrase, salt), nonce, { authTagLength: TAG })
    decipher.setAAD(header).setAuthTag(tag)
    const text = Buffer.concat([decipher.update(bytes.subarray(SALT + NONCE + TAG)), decipher.final()])
    return JSON.parse(text.toString('utf8')) as Secrets
  } catch (cause) {
    throw new OsError('E_PASSPHRASE', 'the passphrase does not open the secrets of this backup; nothing was changed', {
      cause,
    })
  }
}
