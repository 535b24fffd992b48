// Machines without the addon: a port of the package serialport whose driver hangs (fake-tty.c) is given up all the same, is
// asked once only, and holds nothing when it comes back.
import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, readlinkSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { PackagePort } from '../../../../drivers/serial/binding'
import type { OsError } from '../../../../src/lib/errors'
import { until } from '../../../lib/gateway'
import { isPreloaded, testPreloaded } from '../../../lib/preload'
import { Ptys } from '../../../lib/ptys'

const FAKE = 'test/unit/native/fake-tty.c'
const SHORT = 300
const settings = { baudrate: 250_000, data_bits: 8, parity: 'none', stop_bits: 1, flow: 'none' } as const
const code = (expected: string) => (error: OsError) => error.code === expected
const descriptors = (): number => readdirSync('/proc/self/fd').length

const inside = (): void => {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-package-'))
  process.env.FAKE_TTY_DIR = dir
  after(() => rmSync(dir, { recursive: true }))
  for (const call of ['open', 'close'])
    test(`a driver that hangs in ${call} is given up, and leaves nothing behind when it is back`, async t => {
      const ptys = new Ptys()
      t.after(() => ptys.close())
      const path = realpathSync((await ptys.port(join(dir, call))).path)
      process.env.FAKE_TTY = path
      await (await PackagePort.open(path, settings)).close()
      const fds = descriptors()
      const first = call === 'close' ? await PackagePort.open(path, settings) : null
      writeFileSync(join(dir, 'hang'), call)
      if (first) await first.close()
      else await assert.rejects(PackagePort.open(path, settings, SHORT), code('TIMEOUT'))
      for (let k = 0; k < 5; k++) await assert.rejects(PackagePort.open(path, settings, SHORT), code('BUS_STUCK'))
      rmSync(join(dir, 'hang'))
      await until('it is back', () =>
        PackagePort.open(path, settings)
          .then(port => port.close())
          .then(
            () => true,
            () => false,
          ),
      )
      await until('descriptors are back', () => descriptors() <= fds)
    })

  test('a port that refuses its lines is closed before its error is known, so that it can be opened again at once', async t => {
    const ptys = new Ptys()
    t.after(() => ptys.close())
    const path = realpathSync((await ptys.port(join(dir, 'lines'))).path)
    const opened = (): number =>
      readdirSync('/proc/self/fd').filter(fd => {
        try {
          return readlinkSync(`/proc/self/fd/${fd}`) === path
        } catch {
          return false // closed meanwhile
        }
      }).length
    const before = opened()
    // a pseudo terminal has no DTR
    await assert.rejects(PackagePort.open(path, { ...settings, dtr: true }), /ioctl|set/)
    assert.equal(opened(), before)
    await (await PackagePort.open(path, settings)).close()
  })
}

if (isPreloaded(FAKE)) inside()
else testPreloaded(FAKE, 3)
