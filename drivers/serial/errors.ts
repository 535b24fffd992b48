// What a serial port's errors mean, in words of whoever stands in front of the board.
import { readFileSync, statSync } from 'node:fs'
import { asOsError, errno, OsError } from '../../src/lib/errors'

/** Name of a group by number, the number itself where nobody named it. */
function groupName(gid: number): string {
  try {
    const line = readFileSync('/etc/group', 'utf8')
      .split('\n')
      .find(text => text.split(':')[2] === String(gid))
    return line?.split(':')[0] ?? String(gid)
  } catch {
    return String(gid) // no such file: numbers have to do
  }
}

const groupOf = (path: string): string => {
  try {
    return groupName(statSync(path).gid)
  } catch {
    return 'dialout' // gone meanwhile; what it is on every Debian
  }
}

/** An error of opening as the package serialport words it (`Error: Permission denied, cannot open /dev/ttyUSB0`). */
export function openError(error: unknown, path: string): OsError {
  const { message } = asOsError(error)
  if (error instanceof OsError) return error
  if (/permission denied/i.test(message)) {
    const group = groupOf(path)
    return new OsError('E_PERMISSION', `no permission to open ${path}: this user is not in the group ${group}`, {
      cause: error,
      hint: `usermod -aG ${group} USER, then start the service again`,
    })
  }
  if (/cannot lock|busy|temporarily unavailable/i.test(message))
    return new OsError('PORT_BUSY', `${path} is in use by another program`, {
      cause: error,
      hint: `see what has it: fuser -v ${path} (often a login console, ModemManager or gpsd)`,
    })
  if (/no such (file|device)/i.test(message)) return new OsError('LINK_DOWN', `${path} is gone`, { cause: error })
  if (/inappropriate ioctl|not a typewriter/i.test(message))
    return new OsError('CONFIG_INVALID', `${path} is no serial port`, { cause: error, hint: 'correct the option port' })
  if (/baud rate/i.test(message))
    return new OsError('CONFIG_INVALID', `${path} does not take this baudrate`, {
      cause: error,
      hint: 'choose another',
    })
  if (/input\/output error/i.test(message))
    return new OsError('LINK_DOWN', `${path} does not answer: no UART behind it, or the adapter hangs`, {
      cause: error,
    })
  return new OsError('LINK_DOWN', `${path} cannot be opened: ${message}`, { cause: error })
}

/** Why a port that was open is lost. */
export function lostReason(error: unknown, path: string): string {
  const code = errno(error)
  if (error === null || code === 'EIO' || code === 'ENXIO' || code === 'ENODEV' || code === undefined)
    return `${path} was unplugged or hung up`
  return `${path}: ${asOsError(error).message}`
}
