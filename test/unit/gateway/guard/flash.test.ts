// Wear of the medium: the kernel's own count of sectors, from a fake /sys whose block device is that of a folder of this
// machine.
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { FlashWear } from '../../../../src/gateway/guard/flash'
import { ManualClock } from '../../../lib/manual'

const dir = mkdtempSync(join(tmpdir(), 'os-node-flash-'))
after(() => rmSync(dir, { recursive: true }))
const HOUR_S = 3600
const DAY_MS = 86_400_000

/** A machine that has written `sectors` since its start. */
function machine() {
  const sys = mkdtempSync(join(dir, 'sys-'))
  const { dev } = statSync(dir)
  const block = join(sys, 'devices', 'mmcblk0p3')
  mkdirSync(block, { recursive: true })
  mkdirSync(join(sys, 'dev', 'block'), { recursive: true })
  // the packing of a device number in glibc
  const number = `${Number((BigInt(dev) >> 8n) & 0xfffn)}:${Number((BigInt(dev) & 0xffn) | ((BigInt(dev) >> 12n) & 0xfff00n))}`
  symlinkSync(block, join(sys, 'dev', 'block', number))
  const wrote = (sectors: number): void =>
    writeFileSync(join(block, 'stat'), `    9 8 7 6   55 44 ${sectors} 33 0 22 11 0 0 0 0\n`)
  return { sys, block, wrote }
}

test('wear is the mean rate since the start of the machine, compared with the endurance', () => {
  const { sys, wrote } = machine()
  wrote(2_000_000)
  let up = HOUR_S / 2
  const wear = FlashWear.of(dir, new ManualClock(), { sys, uptimeS: () => up })!
  assert.equal(wear.report(8)!.wear_percent_year, null)
  up = 10 * HOUR_S
  // 1.024 GB in ten hours are 898 GB in a year of 365.25 days
  const { device, endurance_bytes, wear_percent_year } = wear.report(8)!
  assert.deepEqual([device, endurance_bytes, wear_percent_year], ['mmcblk0p3', 8e12, 11.22])
  assert.equal(wear.report(0.8)!.wear_percent_year, 112.2)
})

test('bytes of today count from midnight, or from the start of the gateway on a machine that started before', () => {
  const { sys, wrote } = machine()
  wrote(1000)
  const clock = new ManualClock()
  clock.advance(DAY_MS - (clock.wall() % DAY_MS) + 2 * HOUR_S * 1000)
  const started = (uptimeS: number) => FlashWear.of(dir, clock, { sys, uptimeS: () => uptimeS })!
  const today = started(HOUR_S)
  const earlier = started(3 * HOUR_S)
  wrote(1500)
  assert.equal(today.report(8)!.bytes_written_today, 1500 * 512)
  assert.equal(earlier.report(8)!.bytes_written_today, 500 * 512)
  clock.advance(DAY_MS)
  assert.equal(today.report(8)!.bytes_written_today, 0)
  wrote(1600)
  assert.equal(today.report(8)!.bytes_written_today, 100 * 512)
})

test('a device that the kernel does not count has no report, nor has a disk that was unplugged', () => {
  const { sys, block, wrote } = machine()
  assert.equal(FlashWear.of(dir, new ManualClock(), { sys: join(dir, 'none') }), undefined)
  assert.equal(FlashWear.of(join(dir, 'none'), new ManualClock(), { sys }), undefined)
  wrote(1)
  const wear = FlashWear.of(dir, new ManualClock(), { sys })!
  rmSync(block, { recursive: true })
  assert.equal(wear.report(8), undefined)
})
