// Advice about missing resources. The built-in table can be written to <data>/env_guard/resources.json and changed
// there, since a gateway's owner may know a better remedy. Texts only: nothing here is ever executed. If the file
// cannot be read, that is logged and the built-in table applies.
import { join } from 'node:path'
import * as v from 'valibot'
import { atomicWrite } from '../lib/atomic'
import { asOsError, errno } from '../lib/errors'
import type { Files } from '../lib/files'
import type { Logger } from '../lib/logger'
import { addonRemedy } from '../native'

export const KINDS = ['device', 'permission', 'package'] as const
export type ResourceKind = (typeof KINDS)[number]

const REMEDY = v.object({
  kind: v.picklist(KINDS),
  /** part of the resource's name, or a pattern in slashes; empty: any */
  resource: v.string(),
  remedy: v.pipe(v.string(), v.minLength(1)),
})
const FILE = v.object({ remedies: v.array(REMEDY) })
export type Remedy = v.InferOutput<typeof REMEDY>

/** The first match applies. `{resource}`, `{group}` and `{user}` are filled in. */
export const BUILTIN_REMEDIES: readonly Remedy[] = [
  {
    kind: 'permission',
    resource: '/dev/',
    remedy: 'make the user {user} a member of the group {group} (usermod -aG {group} {user}), then start os-node again',
  },
  { kind: 'permission', resource: '', remedy: 'give the user {user} the right to use {resource}' },
  {
    kind: 'device',
    resource: '/dev/spidev',
    remedy: 'switch SPI on in the boot configuration (dtparam=spi=on) and start the board again',
  },
  {
    kind: 'device',
    resource: '/dev/i2c',
    remedy: 'switch I2C on in the boot configuration (dtparam=i2c_arm=on) and start the board again',
  },
  {
    kind: 'device',
    resource: '/dev/tty',
    remedy: 'plug the adapter in, or correct the port: ls -l /dev/serial/by-id',
  },
  { kind: 'device', resource: '/dev/gpiochip', remedy: 'correct the chip: os-node gpio lists the chips' },
  {
    kind: 'device',
    resource: '/^can\\d|can-isotp/',
    remedy:
      'plug the adapter in, or enable its overlay; then load the modules (modprobe can-isotp) and bring the interface up: ip link set {resource} up type can bitrate 500000',
  },
  { kind: 'device', resource: '', remedy: 'check the name and the plug of {resource}' },
  {
    kind: 'package',
    resource: 'native addon',
    get remedy() {
      return addonRemedy() // looks for the sources of this installation
    },
  },
  { kind: 'package', resource: '', remedy: 'os-node deps install {resource}' },
]

/** For a file that does not load: `resource` is compared with its error. */
export const LOAD_REMEDIES: readonly Remedy[] = (
  [
    ['/^ENOENT/', 'os-node deps sync restores it, or says which file to copy where'],
    ['/^EACCES|^EPERM/', 'let the user of os-node read the file: chmod a+r'],
    [
      '/GLIBC_|GLIBCXX_|version .* not found/',
      'the C library of this system is older than the one it was built for: update the system',
    ],
    [
      '/wrong ELF class|invalid ELF header|Exec format|file too short/',
      'the file is damaged or for another processor: os-node deps repair',
    ],
    [
      '/noexec|failed to map segment/',
      'its file system is mounted noexec: mount it exec, or install os-node elsewhere',
    ],
    ['cannot open shared object file', 'a library it needs is not installed; the message names it'],
    ['/SyntaxError|Unexpected|Invalid or unexpected/', 'the bundle is damaged: os-node deps repair'],
    ['/^signal/', 'it crashes the process: os-node deps repair; if that does not help, report it'],
    ['', 'os-node deps check shows whether the file was changed'],
  ] as const
).map(([resource, remedy]) => ({ kind: 'package', resource, remedy }))

const fits = ({ resource }: Remedy, name: string): boolean => {
  const [, pattern] = /^\/(.+)\/$/.exec(resource) ?? []
  // a path also begins with a slash, but does not end with one
  return pattern === undefined ? name.includes(resource) : new RegExp(pattern).test(name)
}

/** The first remedy that applies, as it is written. */
export const adviceFor = (remedies: readonly Remedy[], kind: ResourceKind, resource: string): string =>
  remedies.find(remedy => remedy.kind === kind && fits(remedy, resource))?.remedy ?? `check ${resource}`

/** The advice as text. */
export function remedyFor(
  remedies: readonly Remedy[],
  kind: ResourceKind,
  resource: string,
  facts: { readonly group?: string; readonly user: string },
): string {
  return adviceFor(remedies, kind, resource)
    .replaceAll('{resource}', resource)
    .replaceAll('{group}', facts.group ?? 'that owns it')
    .replaceAll('{user}', facts.user)
}

/** The file of the table in a data directory. */
export const remediesFile = (dataDir: string): string => join(dataDir, 'env_guard', 'resources.json')

/** The table of the file, or the built-in one. Never throws. */
export function readRemedies(path: string, files: Pick<Files, 'read'>, logger: Logger): readonly Remedy[] {
  try {
    const { remedies } = v.parse(FILE, JSON.parse(files.read(path).toString('utf8')))
    for (const remedy of remedies) fits(remedy, '') // an invalid pattern is reported now
    return remedies
  } catch (error) {
    if (errno(error) !== 'ENOENT') logger.warn(`${path} is ignored: ${asOsError(error).message}`)
    return BUILTIN_REMEDIES
  }
}

/** Throws the system's error. */
export const writeRemedies = (path: string, files: Files): void =>
  atomicWrite(path, `${JSON.stringify({ remedies: BUILTIN_REMEDIES }, null, 2)}\n`, files)
