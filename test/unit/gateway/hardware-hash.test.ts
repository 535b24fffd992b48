// The hardware on which an identity was created: the hardware ids of a machine, and what a start on another machine
// reports.
import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { ConfigStore } from '../../../src/config'
import { checkHardware, hardwareMarks } from '../../../src/gateway/hardware-hash'
import { createLogger } from '../../../src/lib/logger'
import { removeDir, tempDir } from '../../lib/gateway'

function machine(root: string, files: Record<string, string>): string[] {
  rmSync(root, { recursive: true, force: true })
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), text)
  }
  return hardwareMarks(root)
}
const kinds = (marks: readonly string[]): string => marks.map(mark => mark.split(':')[0]).join(' ')

test('hardware ids: device tree, DMI, first MAC of a board; values that firmware left blank do not count', t => {
  const root = join(tempDir(), 'root')
  t.after(() => removeDir(dirname(root)))
  const eth0 = { 'sys/class/net/eth0/address': 'dc:a6:32:01:02:03\n', 'sys/class/net/eth0/device/uevent': '' }
  const pi = machine(root, { 'proc/device-tree/serial-number': '10000000abcdef01\0', ...eth0 })
  assert.equal(kinds(pi), 'device-tree mac')
  for (const mark of pi) assert.match(mark, /^[a-z-]+:[0-9a-f]{16}$/, 'a hash, not the number')
  const dmi = (text: string) => ({ 'sys/class/dmi/id/product_serial': `${text}\n` })
  assert.equal(kinds(machine(root, dmi('PF2ABCDE'))), 'dmi')
  for (const blank of ['To be filled by O.E.M.', 'Default string', '0', 'None', 'Not Specified', '0123456789'])
    assert.equal(kinds(machine(root, dmi(blank))), '', blank)
  // made by software, or without a device: containers and tunnels
  assert.deepEqual(machine(root, { ...eth0, 'sys/class/net/eth0/address': '02:42:ac:11:00:02\n' }), [])
  assert.deepEqual(machine(root, { 'sys/class/net/docker0/address': 'dc:a6:32:01:02:03\n' }), [])
})

test('a start keeps the hardware ids; a start on other hardware warns each time, continues and changes nothing', t => {
  const cwd = tempDir()
  t.after(() => removeDir(cwd))
  const file = join(cwd, 'Config.json')
  writeFileSync(file, '{"device_id": "gw", "assigned_id": 7}')
  const lines: string[] = []
  const starts = (...marks: string[]): boolean => {
    lines.length = 0
    const logger = createLogger({ write: line => lines.push(line) })
    return checkHardware(ConfigStore.load({ env: {}, cwd }), logger, marks)
  }
  const kept = (): unknown => JSON.parse(readFileSync(file, 'utf8')).hardware_id
  assert.equal(starts('mac:aa'), true)
  assert.equal(kept(), 'mac:aa')
  assert.equal(starts('dmi:bb', 'mac:aa'), true, 'root reads more')
  assert.equal(kept(), 'dmi:bb mac:aa')
  assert.equal(starts('dmi:bb', 'mac:cc'), true, 'another network card is the same board')
  assert.equal(kept(), 'dmi:bb mac:cc')
  assert.equal(starts(), true, 'a machine that tells nothing')
  assert.equal(kept(), 'dmi:bb mac:cc')
  assert.deepEqual(lines, [])
  for (let k = 0; k < 2; k++) {
    assert.equal(starts('dmi:dd', 'mac:ee'), false)
    assert.match(
      lines.join(''),
      /WARN .*made on other hardware.* as gw \(id 7\).*config-set --key hardware_id --value ""/,
    )
    assert.equal(kept(), 'dmi:bb mac:cc')
  }
  writeFileSync(file, '{"device_id": "gw", "assigned_id": 7, "hardware_id": ""}')
  assert.equal(starts('dmi:dd'), true)
  assert.equal(kept(), 'dmi:dd')
})
