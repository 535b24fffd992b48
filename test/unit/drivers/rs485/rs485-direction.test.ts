// A port whose driver switches the direction (fake-direction.c, preloaded before the C library; the file runs itself
// again with it): the medium opens, has passed the options to the driver, and packets go in both directions.
// Needs: cc
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { modbusRtu } from '../../../../drivers/modbus'
import { createRs485 } from '../../../../drivers/rs485'
import { systemClock } from '../../../../src/lib/clock'
import type { OsError } from '../../../../src/lib/errors'
import { silentLogger } from '../../../../src/lib/logger'
import { nativeOrNull } from '../../../../src/native'
import { getRs485 } from '../../../../src/native/rs485'
import { root, until } from '../../../lib/gateway'
import { onTty } from '../../../lib/on-tty'
import { dataPacket } from '../../../lib/packets'
import { Ptys } from '../../../lib/ptys'
import { SerialBus } from '../../../lib/serialbus'

const INSIDE = 'OS_NODE_FAKE_DIRECTION'
const context = { clock: systemClock, logger: silentLogger }
const events = { lost: () => undefined, degraded: () => undefined }

const around = (): void => {
  test('the tests pass with the fake driver', {
    skip: nativeOrNull() ? false : 'this machine has no C compiler',
  }, t => {
    const dir = mkdtempSync(join(tmpdir(), 'os-node-direction-'))
    t.after(() => rmSync(dir, { recursive: true }))
    const library = join(dir, 'fake.so')
    const source = join(root, 'test/unit/drivers/rs485/fake-direction.c')
    const made = spawnSync('cc', ['-O1', '-fPIC', '-shared', '-Wall', '-Werror', '-o', library, source, '-ldl'], {
      encoding: 'utf8',
    })
    assert.equal(made.status, 0, made.stderr)
    const env = { ...process.env, [INSIDE]: dir, LD_PRELOAD: library, NODE_TEST_CONTEXT: undefined }
    const ran = spawnSync(process.execPath, ['--test-reporter=tap', process.argv[1]!], { env, encoding: 'utf8' })
    assert.equal(ran.status, 0, ran.stdout + ran.stderr)
    assert.match(ran.stdout, /^# pass 2$/m)
  })
}

const inside = (dir: string): void => {
  test('R17: the driver gets the settings of the options, and packets go in both directions', async () => {
    const ptys = new Ptys()
    const [a, b] = [await ptys.port(join(dir, 'a')), await ptys.port(join(dir, 'b'))]
    new SerialBus([a, b])
    const asked = { rts_on_send: false, delay_before_ms: 1, delay_after_ms: 2 }
    const one = createRs485('one', { port: a.path, ...asked }, context)
    const two = createRs485('two', { port: b.path, mode: 'listen', direction: 'auto_hardware' }, context)
    const got: Buffer[] = []
    two.onPacket((packet, origin) => {
      got.push(Buffer.from(packet))
      void origin.reply(Uint8Array.of(0x09, 0, 1))
    })
    let answered = false
    one.onPacket(() => {
      answered = true
    })
    await one.open(events)
    await two.open(events)
    assert.equal(await one.send(dataPacket(1)), true)
    await until('both directions', () => got.length === 1 && answered)
    await one.close()
    await two.close()
    // the port was locked; its driver keeps the settings
    const { enabled, rtsOnSend, rtsAfterSend, rxDuringTx, delayBeforeMs, delayAfterMs } = await onTty(a.path, getRs485)
    assert.deepEqual([enabled, rtsOnSend, rtsAfterSend, rxDuringTx], [true, false, true, false])
    assert.deepEqual([delayBeforeMs, delayAfterMs], [1, 2])
    ptys.close()
  })

  test('a driver that accepts the call and does something else is refused', async t => {
    const ptys = new Ptys()
    t.after(() => ptys.close())
    const { path } = await ptys.port(join(dir, 'c'))
    for (const [how, options, why] of [
      ['off', {}, /leaves the mode off/],
      ['turned', {}, /RTS is low while it sends/],
      ['hasty', { delay_before_ms: 3 }, /waits 0 ms before sending, not 3/],
      ['hasty', { delay_after_ms: 100 }, /waits 0 ms after sending, not 100/],
    ] as const) {
      process.env.FAKE_RS485 = how
      const medium = createRs485('r', { port: path, ...options }, context)
      t.after(() => medium.close())
      await assert.rejects(medium.open(events), (error: OsError) => {
        assert.match(error.hint, /auto_hardware/)
        assert.match(error.message, why)
        return error.code === 'UNSUPPORTED'
      })
      if (how === 'hasty') continue
      const registers = [{ id: 'a', address: 1 }]
      const modbus = modbusRtu.create('m', { port: path, slave: 1, direction: 'kernel', registers }, context)
      t.after(() => modbus.close())
      await assert.rejects(modbus.open(events), why)
    }
  })
}

const dir = process.env[INSIDE]
if (dir) inside(dir)
else around()
