// The message for each error of opening a serial port, and for each way to lose one.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { lostReason, openError } from '../../../../drivers/serial/errors'
import { OsError } from '../../../../src/lib/errors'
import { systemError } from '../../../../src/native/errors'

const PATH = '/dev/ttyUSB9'
const of = (errno: string): OsError => new OsError('LINK_DOWN', `open ${errno}`, { details: { errno } })

test('every errno of opening has its code, what happened and what to do; the cause is kept', () => {
  for (const [errno, code, message, hint] of [
    [
      'EACCES',
      'NO_ACCESS',
      /^no permission to open \/dev\/ttyUSB9: .* not in the group dialout$/,
      /^usermod -aG dialout USER/,
    ],
    ['EPERM', 'NO_ACCESS', /not in the group dialout$/, /^usermod -aG dialout USER/],
    ['EBUSY', 'PORT_BUSY', /in use by another program$/, /fuser -v \/dev\/ttyUSB9/],
    ['ENOENT', 'LINK_DOWN', /^\/dev\/ttyUSB9 is gone$/, /os-node status/],
    ['ENXIO', 'LINK_DOWN', /^\/dev\/ttyUSB9 is gone$/, /os-node status/],
    ['ENODEV', 'LINK_DOWN', /^\/dev\/ttyUSB9 is gone$/, /os-node status/],
    ['ENOTTY', 'CONFIG_INVALID', /is no serial port$/, /option port/],
    ['EINVAL', 'CONFIG_INVALID', /does not take this baudrate$/, /choose another/],
    ['EIO', 'LINK_DOWN', /no UART behind it, or the adapter hangs$/, /os-node status/],
    ['EMFILE', 'LINK_DOWN', /^\/dev\/ttyUSB9 cannot be opened: .*open EMFILE$/, /os-node status/],
  ] as const) {
    const cause = of(errno)
    const error = openError(cause, PATH)
    assert.equal(error.code, code, errno)
    assert.match(error.message, message)
    assert.match(error.hint ?? '', hint, errno)
    assert.equal(error.cause, cause)
  }
})

test('a driver that does not answer is reported with its path; an error that has a message already is unchanged', () => {
  const late = openError(new OsError('TIMEOUT', 'open: 1000 ms', { details: { errno: 'EIO' } }), PATH)
  assert.deepEqual([late.code, /ttyUSB9 does not open.*open: 1000 ms/.test(late.message)], ['TIMEOUT', true])
  assert.match(late.hint, /plug it in again.*dmesg/)
  for (const told of [
    new OsError('CONFIG_INVALID', 'no such baudrate', { details: { errno: 'EINVAL' } }),
    new OsError('BUS_STUCK', 'the one before is still open'),
  ])
    assert.equal(openError(told, PATH), told)
})

test('a port that hung up counts as unplugged, whatever the errno; any other reason is reported unchanged', () => {
  for (const error of [null, ...[5, 6, 19].map(errno => systemError(-errno, 'read')), new Error('no errno')])
    assert.equal(lostReason(error, PATH), '/dev/ttyUSB9 was unplugged or hung up')
  assert.match(lostReason(systemError(-9, 'read'), PATH), /^\/dev\/ttyUSB9: read EBADF$/)
})
