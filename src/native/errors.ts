// Converts the addon's results to errors: it returns minus errno and never throws. The name of the system's error
// ('ENOENT') is in `details.errno` and, for errno(), in the cause.
import { getSystemErrorName } from 'node:util'
import { type ErrorCode, OsError } from '../lib/errors'

/** The meaning of kernel errors for the program; all others are LINK_DOWN: a device that failed. */
const CODES: Readonly<Record<string, ErrorCode>> = {
  ENOENT: 'NOT_FOUND',
  ENODEV: 'NOT_FOUND',
  ENXIO: 'NOT_FOUND',
  EACCES: 'NO_ACCESS',
  EPERM: 'NO_ACCESS',
  ENOTTY: 'UNSUPPORTED',
  EOPNOTSUPP: 'UNSUPPORTED',
  ENOTSUP: 'UNSUPPORTED',
  ENOSYS: 'UNSUPPORTED',
  EBUSY: 'PORT_BUSY',
  EADDRINUSE: 'PORT_BUSY',
  EADDRNOTAVAIL: 'NETWORK',
  EAFNOSUPPORT: 'NETWORK',
  ECONNREFUSED: 'NETWORK',
  ECONNRESET: 'NETWORK',
  EHOSTUNREACH: 'NETWORK',
  ENETDOWN: 'NETWORK',
  ENETUNREACH: 'NETWORK',
  ETIMEDOUT: 'TIMEOUT',
  EINVAL: 'INTERNAL',
  EFAULT: 'INTERNAL',
  EBADF: 'INTERNAL',
  ENOSPC: 'DISK_FULL',
}

/** An error like node's own, with `code`, `errno` and `syscall`. `result` is the addon's result: minus errno. */
export function systemError(result: number, call: string): NodeJS.ErrnoException {
  const code = getSystemErrorName(result)
  return Object.assign(new Error(`${call} ${code}`), { code, errno: result, syscall: call })
}

/** The same as the error of public functions. `what` names the requested thing. */
export function nativeError(result: number, call: string, what: string): OsError {
  const cause = systemError(result, call)
  return new OsError(CODES[cause.code!] ?? 'LINK_DOWN', `${what}: ${call} ${cause.code}`, {
    cause,
    details: { errno: cause.code },
  })
}
