// backup and restore: the state of a gateway in one file. A backup only reads, so a gateway may run meanwhile; the file
// belongs to the caller, in a folder that the gateway may not be allowed to use. The passphrase comes from a file, the
// environment or a prompt. Errors: those of src/backup; USAGE if FILE exists; LOCKED if a gateway uses the state to be
// replaced.
import { resolve } from 'node:path'
import type { BackupResult, BackupSource, RestoreOptions, RestoreResult } from '../../backup'
import type { ConfigStore } from '../../config'
import { systemClock } from '../../lib/clock'
import { counted } from '../../lib/counted'
import { OsError } from '../../lib/errors'
import { bytesText } from '../../units/display'
import { inUpdateFile } from '../update-file'
import type { OptionSpec, OptionValues, Verb } from '../verb'

const VARIABLE = 'OS_NODE_BACKUP_PASSPHRASE'
/** minimum characters of a passphrase */
export const SHORTEST = 8

const PASSPHRASE_FILE: OptionSpec = {
  type: 'string',
  value: 'PATH',
  help: `file with the passphrase in its first line (else ${VARIABLE}, else it is prompted for)`,
}

/** The input of a backup, from the configuration. */
export function sourceOf(config: ConfigStore, version: string, passphrase?: string): BackupSource {
  const { path, baseDir, config: settings } = config
  const { device_id, assigned_id } = settings
  return {
    dataDir: config.dataDir,
    config: config.texts(),
    place: { path, baseDir, settings },
    about: { version, created: systemClock.wall(), device_id, assigned_id },
    passphrase,
  }
}

/** The target of a restore. */
export const targetOf = (config: ConfigStore, file: string, passphrase?: string): RestoreOptions => ({
  ...{ file, passphrase, dataDir: config.dataDir, configPath: config.path, checkConfig: config.check },
  now: systemClock.wall(),
})

type Prepare = Parameters<NonNullable<Verb['prepare']>>

/** The first line of the file, the variable, or the prompt's input. Throws USAGE. */
async function passphraseOf(options: OptionValues, read: Prepare[1], secret: Prepare[2]): Promise<string> {
  const path = options['passphrase-file']
  const text =
    path !== undefined
      ? (await read(String(path))).split(/\r?\n/, 1)[0]!
      : (process.env[VARIABLE] ?? (await secret('passphrase of the backup')))
  if (text.length < SHORTEST)
    throw new OsError('USAGE', `the passphrase has fewer than ${SHORTEST} characters`, { hint: 'take a longer one' })
  return text
}

export const backup: Verb<BackupResult & { readonly file: string }> = {
  name: 'backup',
  summary: 'write configuration, log and identity into one file',
  description:
    'A gateway may run meanwhile. Passwords, keys, tokens and users are left out unless --with-secrets encrypts them with a passphrase ' +
    '(scrypt, AES-256-GCM).',
  examples: [
    'os-node backup gateway.backup',
    'os-node backup /media/usb/gateway.backup --with-secrets --passphrase-file /root/passphrase',
  ],
  options: {
    file: { type: 'string', value: 'FILE', required: true, help: 'output file' },
    force: { type: 'boolean', help: 'overwrite an existing file' },
    'with-secrets': { type: 'boolean', help: 'include secrets, encrypted with a passphrase' },
    'passphrase-file': PASSPHRASE_FILE,
  },
  operands: ['file'],
  where: 'local',
  prepare: async (options, read, secret) =>
    options['with-secrets'] === true ? { ...options, passphrase: await passphraseOf(options, read, secret) } : options,
  async run({ config, version }, { file: name, force, passphrase }) {
    const file = resolve(String(name))
    const source = sourceOf(config, version, passphrase as string | undefined)
    const result = await inUpdateFile('E_BACKUP', ({ backup }) => backup.backupTo(file, force === true, source))
    return { value: { file, ...result } }
  },
  text: ({ file, files, bytes, secrets, left_out }, paint) =>
    [
      `${paint.bold(file)}: ${counted(files, 'file')}, ${bytesText(bytes)}`,
      secrets
        ? 'secrets are in it, encrypted with the passphrase; without it they are lost'
        : `without secrets: users, tokens and keys${left_out.length > 0 ? `, and ${left_out.join(', ')}` : ''} are not in it (--with-secrets)`,
    ].join('\n'),
}

export const restore: Verb<RestoreResult> = {
  name: 'restore',
  summary: 'replace configuration, log and identity by a backup',
  description:
    'The file is checked first; a damaged one changes nothing. No gateway may run. The old state stays in DATA/restore until the new ' +
    'one has started once. On another board: the old board must never run again, since both would send under one id.',
  examples: [
    'os-node restore gateway.backup',
    'os-node restore gateway.backup --config /etc/os-node/Config.json --passphrase-file /root/passphrase',
  ],
  options: {
    file: { type: 'string', value: 'FILE', required: true, help: 'backup file' },
    'without-secrets': { type: 'boolean', help: 'do not restore the secrets; needs no passphrase' },
    'passphrase-file': PASSPHRASE_FILE,
  },
  operands: ['file'],
  where: 'local',
  changes: true,
  tolerant: true,
  makesConfig: true,
  async prepare(options, read, secret) {
    const file = resolve(String(options.file))
    const { secrets } = await inUpdateFile('E_BACKUP', ({ backup }) => backup.backupHeader(file))
    if (!secrets || options['without-secrets'] === true) return { ...options, file }
    return { ...options, file, passphrase: await passphraseOf(options, read, secret) }
  },
  async run({ config }, { file, passphrase }) {
    const place = targetOf(config, String(file), passphrase as string | undefined)
    return { value: await inUpdateFile('E_BACKUP', ({ backup }) => backup.restoreBackup(place)) }
  },
  text: ({ device_id, assigned_id, created, version, secrets, secrets_restored, left_out, old_state }, paint) =>
    [
      `${paint.bold(device_id)} (id ${assigned_id}) is restored as of ${new Date(created).toISOString()}, os-node ${version}`,
      ...(secrets_restored
        ? []
        : [
            `without secrets${secrets ? ', which stay in the backup' : ''}: os-node token --new creates a token; create users and keys again`,
            ...(left_out.length > 0 ? [`set again in Config.json: ${left_out.join(', ')}`] : []),
          ]),
      ...(old_state === null ? [] : [`the old state is in ${old_state} until the restored one has started once`]),
      'if the backup is from another board, that board must never run again',
    ].join('\n'),
}
