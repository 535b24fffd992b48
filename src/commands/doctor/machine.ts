// The doctor's queries to this machine, as one interface, so that tests can produce every finding. Nothing here changes
// anything or throws: what cannot be read is undefined, or the errno of the failure.

import { createSocket } from 'node:dgram'
import { readdirSync, readFileSync, statfsSync, statSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { totalmem } from 'node:os'
import { dirname } from 'node:path'
import { accessProblem, addonProblem, type DeviceAccess, deviceAccess, userName } from '../../checks/devices'
import { cgroupLimit } from '../../gateway/guard/resources'
import { findOwner, type LockInfo } from '../../gateway/lock'
import { allSigns, type ClockSigns } from '../../gateway/time/time-sources'
import { errno, orElse } from '../../lib/errors'
import { HostResolver } from '../../links/resolve'
import { nativeOrNull } from '../../native'
import { FileReader } from '../../native/files'
import { buildPing } from '../../protocol/control'
import { COMMAND } from '../../wire/commands'

export interface Machine {
  readonly nodeVersion: string
  readonly user: string
  /** UNIX ms */
  wall(): number
  read(path: string): string | undefined
  /** reads a file that queries hardware: on a thread of the addon, so that a running gateway does not wait */
  measure(path: string): Promise<string | undefined>
  list(path: string): readonly string[]
  exists(path: string): boolean
  /** undefined: it may be read and written; else the errno */
  access(path: string): string | undefined
  /** whether a device may be used */
  look(path: string): DeviceAccess
  /** of the file system of a path, which need not exist yet */
  space(path: string): { readonly free: number; readonly total: number } | undefined
  /** bytes this process may use, and bytes free on the machine */
  memory(): { limit: number; free: number | undefined }
  clock(): ClockSigns | Promise<ClockSigns>
  /** why the native addon does not load; null if it loads */
  addon(): string | null
  /** the running process that owns a data directory */
  owner(dataDir: string): Promise<Pick<LockInfo, 'pid' | 'role'> | undefined>
  /** listens for a moment; undefined if that works */
  listen(kind: 'udp' | 'tcp', host: string, port: number): Promise<string | undefined>
  /** the address of a name. Throws NETWORK. */
  resolve(host: string): Promise<string>
  /** undefined if a connection is accepted; else the reason */
  connects(host: string, port: number): Promise<string | undefined>
  /** undefined if a PING over UDP is answered; else the reason */
  answers(host: string, port: number): Promise<string | undefined>
}

const WAIT_MS = 3000

/** undefined: missing on this machine, or not permitted; the check explains it */
const quiet = <T>(ask: () => T): T | undefined => orElse(undefined, ask)

async function measure(path: string): Promise<string | undefined> {
  if (!nativeOrNull()) return quiet(() => readFileSync(path, 'latin1'))
  let reader: FileReader | undefined
  try {
    reader = new FileReader(path)
    const text = Buffer.alloc(64)
    return text.toString('latin1', 0, await reader.read(path, text, WAIT_MS))
  } catch {
    return undefined // missing, or no answer
  } finally {
    reader?.close()
  }
}

const listens = (kind: 'udp' | 'tcp', host: string, port: number): Promise<string | undefined> =>
  new Promise(resolve => {
    const refused = (error: Error): void => resolve(errno(error) ?? error.message)
    if (kind === 'tcp') {
      const server = createServer().once('error', refused)
      server.listen(port, host, () => server.close(() => resolve(undefined)))
    } else {
      const socket = createSocket(host.includes(':') ? 'udp6' : 'udp4').once('error', refused)
      socket.bind(port, host, () => socket.close(() => resolve(undefined)))
    }
  })

const connects = (host: string, port: number): Promise<string | undefined> =>
  new Promise(resolve => {
    const socket = connect({ host, port })
    const end = (why?: string): void => {
      socket.destroy()
      resolve(why)
    }
    socket.setTimeout(WAIT_MS, () => end('no answer'))
    socket.once('connect', () => end())
    socket.once('error', error => end(errno(error) ?? error.message))
  })

async function answers(host: string, port: number): Promise<string | undefined> {
  const { request } = await import('../../media/udp')
  let why = 'no answer'
  const pong = await request(host, port, buildPing(1), WAIT_MS, reply => reply[0] === COMMAND.PONG, {
    onFailure: error => {
      why = error.message
    },
  })
  return pong ? undefined : why
}

export function realMachine(): Machine {
  const resolver = new HostResolver()
  return {
    nodeVersion: process.versions.node,
    user: userName(),
    wall: () => Date.now(),
    read: path => quiet(() => readFileSync(path, 'utf8')),
    measure,
    list: path => quiet(() => readdirSync(path)) ?? [],
    exists: path => quiet(() => statSync(path)) !== undefined,
    access: accessProblem,
    look: deviceAccess,
    space: path => {
      for (let at = path; ; at = dirname(at)) {
        const found = quiet(() => statfsSync(at))
        if (found) return { free: found.bavail * found.bsize, total: found.blocks * found.bsize }
        if (dirname(at) === at) return undefined
      }
    },
    memory: () => {
      const free = /MemAvailable:\s*(\d+) kB/.exec(quiet(() => readFileSync('/proc/meminfo', 'utf8')) ?? '')?.[1]
      return { limit: Math.min(cgroupLimit() ?? Infinity, totalmem()), free: free ? Number(free) * 1024 : undefined }
    },
    clock: allSigns,
    addon: addonProblem,
    owner: findOwner,
    listen: listens,
    resolve: async host => (await resolver.resolve(host)).address,
    connects,
    answers,
  }
}
