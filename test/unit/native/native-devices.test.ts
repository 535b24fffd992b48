// SPI, I2C and RS485 of the addon on devices preloaded before the C library (fake-devices.c): what no kernel of the tests
// has (a full I2C adapter, an RS485 port), on every machine, and with sanitizers when those are loaded. The file runs
// itself again with the devices.
// Needs: cc
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { OsError } from '../../../src/lib/errors'
import { nativeOrNull } from '../../../src/native'
import { I2cBus } from '../../../src/native/i2c'
import { getRs485, setRs485 } from '../../../src/native/rs485'
import { SpiBus, type SpiSegment } from '../../../src/native/spi'
import { until } from '../../lib/gateway'
import { heldClock } from '../../lib/hanging'
import { onTty } from '../../lib/on-tty'

const INSIDE = 'OS_NODE_FAKE_DEVICES'
const root = process.env.OS_NODE_TEST_ROOT ?? process.cwd()
const lacks = nativeOrNull() ? false : 'this machine has no C compiler'
const MS = 5000
const code = (expected: string) => (error: OsError) => error.code === expected
const descriptors = (): number => readdirSync('/proc/self/fd').length

const around = (): void => {
  test('the tests pass with the fake devices', { skip: lacks }, t => {
    const dir = mkdtempSync(join(tmpdir(), 'os-node-fake-'))
    t.after(() => rmSync(dir, { recursive: true }))
    const library = join(dir, 'fake.so')
    const source = join(root, 'test/unit/native/fake-devices.c')
    const flags = ['-O1', '-fPIC', '-shared', '-Wall', '-Wextra', '-Werror']
    const made = spawnSync(process.env.CC ?? 'cc', [...flags, '-o', library, source], { encoding: 'utf8' })
    assert.equal(made.status, 0, made.stderr)
    const env = {
      ...process.env,
      [INSIDE]: '1',
      // the sanitizers must be preloaded first
      LD_PRELOAD: [process.env.LD_PRELOAD, library].filter(Boolean).join(':'),
      NODE_TEST_CONTEXT: undefined,
    }
    const ran = spawnSync(process.execPath, ['--test-reporter=tap', process.argv[1]!], { env, encoding: 'utf8' })
    assert.equal(ran.status, 0, ran.stdout + ran.stderr)
    assert.match(ran.stdout, /^# pass [5-9]$/m)
  })
}

const inside = (): void => {
  test('SPI transfers one segment, many, and none', async t => {
    heldClock(t)
    const spi = await SpiBus.open('/fake/spi', { mode: 3, speedHz: 1_000_000 })
    const rx = new Uint8Array(3)
    assert.equal(await spi.transfer(Uint8Array.of(1, 2, 3), rx, MS), 3)
    assert.deepEqual([...rx], [254, 253, 252])
    const most = 31
    const segments: SpiSegment[] = Array.from({ length: most }, (_, k) => ({
      tx: Uint8Array.of(k, k),
      ...(k % 2 && { rx: new Uint8Array(2) }),
    }))
    assert.equal(await spi.transferAll(segments, MS), 2 * most)
    for (const [k, { rx }] of segments.entries()) if (rx) assert.deepEqual([...rx], [255 - k, 255 - k])
    assert.equal(await spi.transfer(new Uint8Array(0), null, MS), 0)
    await assert.rejects(spi.transfer(rx, new Uint8Array(2), MS), code('INTERNAL'))
    await assert.rejects(spi.transferAll([...segments, { tx: rx }], MS), code('INTERNAL'))
    await assert.rejects(spi.transferAll([], MS), code('INTERNAL'))
    // values beyond the kernel's fields are refused, never truncated
    for (const wrong of [
      { delayUs: 65_536 },
      { delayUs: 0.5 },
      { bitsPerWord: 256 },
      { speedHz: 2 ** 32 },
      { speedHz: -1 },
    ])
      await assert.rejects(spi.transferAll([{ tx: Uint8Array.of(1), ...wrong }], MS), code('INTERNAL'))
    await assert.rejects(spi.transfer(new Uint8Array(70_000), null, MS), /EMSGSIZE/)
    spi.close()
  })

  test('I2C writes, reads, and does both without a stop between', async t => {
    heldClock(t)
    const bus = await I2cBus.open('/fake/i2c')
    assert.equal(bus.functions, 1) // I2C_FUNC_I2C
    const data = Uint8Array.from({ length: 100 }, (_, k) => k ^ 0x5a)
    const back = new Uint8Array(100)
    assert.equal(await bus.transfer(0x50, Uint8Array.of(16, ...data), null, MS), 0)
    assert.equal(await bus.transfer(0x50, Uint8Array.of(16), back, MS), 100)
    assert.deepEqual(back, data)
    await bus.transfer(0x50, Uint8Array.of(20), null, MS)
    await bus.transfer(0x50, null, back.subarray(0, 2), MS)
    assert.deepEqual([...back.subarray(0, 3)], [data[4], data[5], data[2]])
    await assert.rejects(bus.transfer(0x51, Uint8Array.of(0), back, MS), (error: OsError) => {
      assert.deepEqual([error.code, error.message], ['NO_REPLY', '/fake/i2c 0x51: no device answers (EREMOTEIO)'])
      return true
    })
    for (const address of [-1, 128]) await assert.rejects(bus.transfer(address, back, null, MS), code('INTERNAL'))
    await assert.rejects(bus.transfer(0x50, null, null, MS), code('INTERNAL'))
    bus.close()
  })

  test('RS485 settings are returned as the driver applied them', async t => {
    heldClock(t)
    const wanted = { rtsOnSend: false, rtsAfterSend: true, rxDuringTx: true, delayBeforeMs: 1, delayAfterMs: 2 }
    await onTty('/fake/rs485', async bus => {
      const made = await setRs485(bus, wanted)
      assert.deepEqual(made, { ...wanted, enabled: true, rxDuringTx: false })
      assert.deepEqual(await getRs485(bus), made)
      assert.equal((await setRs485(bus, { enabled: false })).enabled, false)
    })
  })

  test('wrong arguments are refused, whatever they are', async t => {
    heldClock(t)
    const addon = nativeOrNull()!.addon as unknown as Record<string, (...args: unknown[]) => unknown>
    const bus = addon['busStart']!()
    const junk = [
      undefined,
      null,
      'x',
      7,
      -1,
      2 ** 40,
      {},
      [],
      new Float64Array(2),
      () => 1,
      new DataView(new ArrayBuffer(8)),
    ]
    for (const name of Object.keys(addon).filter(
      key => /^(bus|spi|i2c|tty|rs485|file)/.test(key) && key !== 'busStart',
    ))
      for (const wrong of junk) {
        const answers = [addon[name]!(wrong), addon[name]!(wrong, wrong, wrong, wrong)]
        if (name !== 'busClose') answers.push(addon[name]!(bus, wrong, wrong, wrong, wrong))
        for (const answer of answers) assert.notEqual(answer, undefined, name)
      }
    addon['busClose']!(bus)
    assert.ok((addon['rs485Get']!(bus) as number) < 0)
  })

  test('devices opened and closed many times leave no descriptors open', async t => {
    heldClock(t)
    const before = descriptors()
    for (let k = 0; k < 300; k++) {
      const [spi, bus] = await Promise.all([SpiBus.open('/fake/spi'), I2cBus.open('/fake/i2c')])
      await Promise.all([spi.transfer(Uint8Array.of(1), null, MS), bus.transfer(0x50, Uint8Array.of(0), null, MS)])
      spi.close()
      bus.close()
    }
    await until('descriptors are back', () => descriptors() <= before)
  })
}

if (process.env[INSIDE]) inside()
else around()
