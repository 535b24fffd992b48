// The addon of drivers/native: the file next to the bundle, else the one inside it (embedded-addon.ts); loaded on first use,
// typed. Errors: no addon for this platform, none was built (no compiler), or it does not load here: every call throws
// E_NO_ADDON with the reason, and a caller that works without it uses nativeOrNull(). OS_NODE_NO_ADDON=1 disables it,
// OS_NODE_ADDON_DIR sets another folder than dist/native (both are for tests; the sanitizer build is loaded that way).
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { asOsError, OsError } from '../lib/errors'
import type { Addon } from './addon'
import { embeddedFor, loadEmbedded, noexecMount } from './embedded-addon'
import { nativeError } from './errors'
import { NativeSocket } from './socket'

export { unpackInto } from './embedded-addon'
export { nativeError, systemError } from './errors'
export * from './socket'

/** The state of the clock as its time service (chrony, ntpd, systemd-timesyncd) reported it to the kernel. */
interface NtpState {
  synced: boolean
  /** remaining correction of the clock */
  offset_us: number
  /** maximum error of the clock; grows while no service keeps it */
  maxerror_us: number
  esterror_us: number
  /** STA_… bits of adjtimex(2) */
  status: number
}

const STA_UNSYNC = 0x40
const TIME_ERROR = 5

export class Native {
  readonly #ntp = new Float64Array(4)

  /** `addon`: all calls, for the other files of this folder and for drivers. */
  constructor(readonly addon: Addon) {}

  /**
   * Sends one datagram to an AF_UNIX socket; a path with a leading @ is in the abstract name space. Never blocks.
   * Throws the error of the kernel (see errors.ts), EAGAIN when the receiver's queue is full.
   */
  sendUnixDatagram(path: string, bytes: Uint8Array): void {
    const sent = this.addon.sendUnixDatagram(path, bytes)
    if (sent < 0) throw nativeError(sent, 'sendto', path)
  }

  /** A UDP socket; buffers in bytes, 0: the kernel's default. Throws the system's error. */
  udpSocket(family: 4 | 6, receiveBuffer = 0, sendBuffer = 0): NativeSocket {
    return new NativeSocket(this.addon, this.addon.openUdp(family, receiveBuffer, sendBuffer))
  }

  /** The address at `slot` of receive()'s peers: '192.0.2.1', '::1', 'fe80::1%eth0'. */
  addressText(peers: Uint8Array, slot: number): string {
    return this.addon.addressText(peers, slot)
  }

  /**
   * Limits the free memory that the C library keeps: all threads share its heaps, and blocks above `keptBytes` are
   * returned to the kernel immediately. False if the C library has no such setting (musl keeps little by default).
   */
  limitMalloc(arenas: number, keptBytes: number): boolean {
    return this.addon.limitMalloc(arenas, keptBytes) === 0
  }

  /**
   * Returns the free memory of all threads to the kernel, including memory below live blocks, which limitMalloc() does
   * not reach. About a millisecond.
   */
  trimMalloc(): void {
    this.addon.trimMalloc()
  }

  /** The kernel's view of its clock (adjtimex, read only). */
  ntpState(): NtpState {
    const state = this.addon.ntpState(this.#ntp)
    if (state < 0) throw nativeError(state, 'adjtimex', 'state of the clock')
    const [offset_us, maxerror_us, esterror_us, status] = this.#ntp as unknown as [number, number, number, number]
    return {
      synced: state !== TIME_ERROR && (status & STA_UNSYNC) === 0,
      offset_us,
      maxerror_us,
      esterror_us,
      status,
    }
  }
}

let loaded: Native | OsError | undefined

/** The addon. Throws E_NO_ADDON with the reason if there is none. */
export function native(): Native {
  if (process.env.OS_NODE_NO_ADDON === '1') throw missing('OS_NODE_NO_ADDON is set')
  loaded ??= load()
  if (loaded instanceof OsError) throw loaded
  return loaded
}

/** The addon, or null for a caller that works without it. */
export function nativeOrNull(): Native | null {
  try {
    return native()
  } catch {
    return null // native() throws only E_NO_ADDON
  }
}

const missing = (why: string, cause?: unknown): OsError =>
  new OsError('E_NO_ADDON', `native addon missing: ${why}`, { cause, hint: addonRemedy() })

/** Advice about a missing addon, depending on the installation: the sources, a package, or a single file. */
export function addonRemedy(dir = folder(), env = process.env): string {
  if (env.OS_NODE_NO_ADDON === '1') return 'unset OS_NODE_NO_ADDON and start again'
  const sources = join(dir, '../..')
  if (existsSync(join(sources, 'build.mjs')))
    return `install gcc (apt-get install gcc libc6-dev), then: cd ${sources} && node build.mjs --native`
  return (
    `mount the data directory without noexec, or build os-node from its sources on a ${process.platform}-${process.arch} ` +
    `machine (git clone, npm start) and copy its folder dist/native to ${dir}`
  )
}

function load(): Native | OsError {
  const target = `${process.platform}-${process.arch}`
  const path = join(folder(), target, 'os_node.node')
  const module = { exports: {} }
  const open = (file: string): void => {
    try {
      process.dlopen(module, file)
    } catch (cause) {
      const mount = noexecMount(file)
      const why = mount ? `${mount} is mounted noexec` : asOsError(cause).message
      throw new Error(`${file} does not load (${why})`, { cause })
    }
  }
  const reasons: string[] = []
  try {
    if (existsSync(path)) {
      open(path)
      return new Native(module.exports as Addon)
    }
    reasons.push(`${path} is missing`)
  } catch (error) {
    reasons.push(asOsError(error).message)
  }
  // a folder that tests set must be the only one
  const embedded = process.env.OS_NODE_ADDON_DIR ? undefined : embeddedFor(target)
  const why = embedded ? loadEmbedded(embedded, open) : `the bundle contains none for ${target}`
  if (why === null) return new Native(module.exports as Addon)
  return missing([...reasons, why].join('; '))
}

/** dist/native: next to the bundle, or below the root that tests set. */
function folder(): string {
  const { OS_NODE_ADDON_DIR: dir, OS_NODE_TEST_ROOT: root } = process.env
  if (dir) return dir
  return root ? join(root, 'dist/native') : join(__dirname, 'native')
}
