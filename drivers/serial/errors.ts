// Explains errors of a serial port for the person at the board.
import { asOsError, errno, OsError } from '../../src/lib/errors'
import { groupOf } from '../../src/lib/writable'

/** Explains an error of opening. */
export function openError(error: unknown, path: string): OsError {
  const { message, code, details } = asOsError(error)
  if (code === 'TIMEOUT')
    return new OsError('TIMEOUT', `${path} does not open: its driver does not answer (${message})`, {
      cause: error,
      hint: 'unplug the adapter and plug it in again; the last lines of dmesg may show the cause',
    })
  if (code === 'CONFIG_INVALID') return error as OsError
  switch (details['errno'] ?? '') {
    case 'EACCES':
    case 'EPERM': {
      // the port was removed meanwhile: use the group of every Debian
      const group = groupOf(path) ?? 'dialout'
      return new OsError('NO_ACCESS', `no permission to open ${path}: this user is not in the group ${group}`, {
        cause: error,
        hint: `usermod -aG ${group} USER, then start the service again`,
      })
    }
    case 'EBUSY':
      return new OsError('PORT_BUSY', `${path} is in use by another program`, {
        cause: error,
        hint: `see what has it: fuser -v ${path} (often a login console, ModemManager or gpsd)`,
      })
    case 'ENOENT':
    case 'ENXIO':
    case 'ENODEV':
      return new OsError('LINK_DOWN', `${path} is gone`, { cause: error })
    case 'ENOTTY':
      return new OsError('CONFIG_INVALID', `${path} is no serial port`, {
        cause: error,
        hint: 'correct the option port',
      })
    case 'EINVAL':
      return new OsError('CONFIG_INVALID', `${path} does not take this baudrate`, {
        cause: error,
        hint: 'choose another',
      })
    case 'EIO':
      return new OsError('LINK_DOWN', `${path} does not answer: no UART behind it, or the adapter hangs`, {
        cause: error,
      })
    case '':
      return error as OsError
    default:
      return new OsError('LINK_DOWN', `${path} cannot be opened: ${message}`, { cause: error })
  }
}

/** The reason why an open port is lost. */
export function lostReason(error: unknown, path: string): string {
  const code = errno(error)
  if (error === null || code === 'EIO' || code === 'ENXIO' || code === 'ENODEV' || code === undefined)
    return `${path} was unplugged or hung up`
  return `${path}: ${asOsError(error).message}`
}
