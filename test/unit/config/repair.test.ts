// repair(): valid keys stay, all others get their default, and the broken file is kept. Whatever the input bytes are, the
// result is a usable configuration.
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { ConfigStore } from '../../../src/config'
import { defaultText } from '../../../src/config/default-text'
import { realFiles } from '../../../src/lib/files'
import { prng } from '../../lib/random'

const root = mkdtempSync(join(tmpdir(), 'os-node-repair-'))
after(() => rmSync(root, { recursive: true, force: true }))
let count = 0

function place(text: string | Uint8Array) {
  const cwd = join(root, String(count++))
  mkdirSync(cwd)
  const file = join(cwd, 'Config.json')
  writeFileSync(file, text)
  const load = (more = {}) => ConfigStore.load({ env: {}, cwd, keep: false, tolerant: true, ...more })
  return { file, load, read: () => readFileSync(file, 'utf8') }
}

test('an invalid value gets its default; comments, formatting and every valid key stay', () => {
  const text = `{
  // the shed
  "device_id": "shed",
  "engine_settings": { "precision": 99, "unit_dialect": "ucum" }, // digits
  "gateway": { "log_level": "loud" }
}
`
  const { file, load, read } = place(text)
  const store = load()
  assert.equal(store.problem?.code, 'CONFIG_INVALID')
  const { repaired, backup } = store.repair()
  assert.deepEqual(repaired, [
    { key: 'engine_settings.precision', old: 99, new: 4 },
    { key: 'gateway.log_level', old: 'loud', new: 'info' },
  ])
  assert.equal(backup, `${file}.bak`)
  assert.equal(readFileSync(backup, 'utf8'), text)
  assert.equal(read(), text.replace('99', '4').replace('loud', 'info'))
  assert.equal(store.problem, undefined)
  assert.equal(store.get('device_id'), 'shed')
})

test('a valid file is unchanged, and a missing file stays missing', () => {
  const { file, load, read } = place(defaultText())
  assert.deepEqual(load().repair(), { repaired: [] })
  assert.equal(read(), defaultText())
  assert.ok(!existsSync(`${file}.bak`))
  rmSync(file)
  assert.deepEqual(load().repair(), { repaired: [] })
  assert.ok(!existsSync(file))
})

test('invalid list elements are removed, their neighbours stay, and keys are reported with their positions in the broken file', () => {
  const uplinks = [
    { name: 'bad', medium: 5 },
    { name: 'good', medium: 'UDP', host: '192.0.2.1', port: 8080 },
    { name: 'good', medium: 'TCP', host: '192.0.2.2' },
    { name: 'last', medium: 'UDP', host: '192.0.2.3', port: 99999 },
  ]
  const { load, read } = place(JSON.stringify({ gateway: { uplinks } }))
  const { repaired } = load().repair()
  const kept = JSON.parse(read()).gateway.uplinks
  assert.deepEqual(
    kept.map((uplink: { name: string; host: string }) => [uplink.name, uplink.host]),
    [
      ['good', '192.0.2.1'],
      ['last', '192.0.2.3'],
    ],
  )
  assert.deepEqual(
    repaired.map(({ key, old }) => [key, old]),
    [
      ['gateway.uplinks.0', uplinks[0]],
      ['gateway.uplinks.3.port', 99999],
      ['gateway.uplinks.2', uplinks[2]],
    ],
  )
  assert.equal(load().problem, undefined)
})

test('in text that is not JSON, everything outside the damage stays', () => {
  const cases: [text: string, kept: Record<string, unknown>, lost: string[]][] = [
    ['{ "device_id": "shed" "assigned_id": 7 }', { device_id: 'shed', assigned_id: 7 }, []],
    ['{ "device_id": "shed", "assigned_id": 7', { device_id: 'shed' }, ['assigned_id']],
    ['{ "device_id": "shed", "assigned_id": 7,', { device_id: 'shed', assigned_id: 7 }, []],
    ['{ "assigned_id": 7, "device_id": "sh', { assigned_id: 7 }, ['device_id']],
    ['{ "device_id": shed, "assigned_id": 7 }', { assigned_id: 7 }, ['device_id']],
    ['{ "device_id": , "assigned_id": 7 }', { assigned_id: 7 }, ['device_id']],
    ['{ "assigned_id": 7, "device_id": "a", "device_id": "b" }', { device_id: 'b', assigned_id: 7 }, ['device_id']],
    ['\ufeff{ "assigned_id": 7 } trailing', { assigned_id: 7 }, []],
    ['{ "engine_settings": { "precision": 2, "full_every": 7 "x', { engine_settings: { precision: 2 } }, []],
    ['not a configuration at all', {}, ['']],
    ['', {}, []],
  ]
  for (const [text, kept, lost] of cases) {
    const { file, load } = place(text)
    const { repaired, backup } = load().repair()
    assert.equal(readFileSync(backup!, 'utf8'), text, text)
    const store = load({ tolerant: false })
    assert.equal(store.path, file)
    for (const [key, value] of Object.entries(kept)) {
      const found = store.get<unknown>(key)
      if (typeof value === 'object') assert.equal((found as { precision: number }).precision, 2)
      else assert.equal(found, value, text)
    }
    assert.deepEqual(
      repaired.map(({ key }) => key).filter(key => lost.includes(key)),
      lost,
      text,
    )
  }
})

test('other notations, extra or missing braces and stray words cost no valid key, and every loss is reported', () => {
  const both = { device_id: 'shed', assigned_id: 7 }
  const cases: [text: string, kept: Record<string, unknown>, told: string[]][] = [
    ['{ "engine_settings": { "precision": 2 } }, "device_id": "shed", "assigned_id": 7 }', both, []],
    ['{ "engine_settings": { "precision": 2, "device_id": "shed", "assigned_id": 7 }', both, Object.keys(both)],
    ['{ "gateway": { "alarm_statuses": ["A", "board": "auto" }, "device_id": "shed", "assigned_id": 7 }', both, []],
    ['{ "gateway": { "alarm_statuses": ["A"}, "device_id": "shed", "assigned_id": 7 }', both, []],
    ['{ "device_id": "shed" }\n{ "assigned_id": 7 }', both, []],
    ["{ device_id: 'shed', 'assigned_id': 7 }", both, []],
    ['{ “device_id”: "shed", "assigned_id": 7 }', both, []],
    ['# mine: yes\n{ "device_id": "shed", # here\n "assigned_id": 7 }', both, []],
    ['"device_id": "shed", "assigned_id": 7,', both, []],
    ['{ "device_id" "shed", "assigned_id": 7 }', both, []],
    ['{ "device_id": "shed", junk, "assigned_id": 7 }', both, ['?']],
    [
      '<<<<<<< HEAD\n{ "device_id": "shed",\n=======\n"device_id": "shed",\n>>>>>>> x\n"assigned_id": 7 }',
      both,
      ['?', 'device_id'],
    ],
    ['{ "device_id: "shed",\n "assigned_id": 7 }', { device_id: '', assigned_id: 7 }, ['?']],
    ['{ "device_id": shed",\n "assigned_id": 7 }', { device_id: '', assigned_id: 7 }, ['?', 'device_id']],
    ['{ "device_id": "shed,\n "assigned_id": 7 }', { device_id: '', assigned_id: 7 }, ['device_id']],
    ['{ "assigned_id": 07, "device_id": "shed" }', { device_id: 'shed', assigned_id: 4294967295 }, ['assigned_id']],
    ['{ "web_user": { "read_only": True }, "assigned_id": 7 }', { assigned_id: 7 }, ['web_user.read_only']],
    ['{ "assigned_id": 7\0\0, "device_id": "shed" }', { device_id: 'shed' }, ['assigned_id']],
    ['\0\0\0\0', {}, ['']],
    ['[{ "assigned_id": 7 }]', {}, ['']],
    [
      '{ "engine_settings": [], "assigned_id": 7 }',
      { assigned_id: 7, 'engine_settings.precision': 4 },
      ['engine_settings'],
    ],
  ]
  for (const [text, kept, told] of cases) {
    const { file, load } = place(text)
    const { repaired, backup } = load().repair()
    assert.equal(readFileSync(backup!, 'utf8'), text)
    const store = load({ tolerant: false })
    for (const [key, value] of Object.entries(kept)) assert.equal(store.get(key), value, text)
    assert.deepEqual(repaired.map(({ key }) => key).sort(), told.sort(), `${text} ${readFileSync(file, 'utf8')}`)
    if (text.includes('precision": 2')) assert.equal(store.get('engine_settings.precision'), 2)
  }
})

test('secrets are masked in the report, and each broken file is kept next to the earlier ones', () => {
  const broken =
    '{ "gateway": { "uplinks": [{ "name": "a", "medium": 5, "password": "hunter2" }] }, "my_token": hunter2 }'
  const { file, load } = place(broken)
  const told = load().repair()
  assert.doesNotMatch(JSON.stringify(told), /hunter2/)
  for (const text of [
    '"password": "hunter2"',
    '{ "gateway": { "password": "hunter2" }, "gateway": {} }',
    '{ "gateway": { "password": hunter2 } }',
    '{ "gateway": { "uplinks": [{ "name": "a", "medium": "MQTT", "password": "hunter2 } ] } }',
  ])
    assert.doesNotMatch(JSON.stringify(place(text).load().repair()), /hunter2/, text)
  writeFileSync(file, '{ "assigned_id": "x" }')
  assert.equal(load().repair().backup, `${file}.bak2`)
  assert.equal(readFileSync(`${file}.bak`, 'utf8'), broken)
})

test('a read-only folder is CONFIG_WRITE, and the file is unchanged', () => {
  const { load, read } = place('{ "assigned_id": "x" }')
  const files = {
    ...realFiles,
    open: () => {
      throw Object.assign(new Error('read only'), { code: 'EROFS' })
    },
  }
  assert.throws(() => load({ files }).repair(), { code: 'CONFIG_WRITE' })
  assert.equal(read(), '{ "assigned_id": "x" }')
})

test('repair of any damaged file gives a configuration that loads', () => {
  const random = prng(6)
  const sound = defaultText()
  for (let n = 0; n < 150; n++) {
    const bytes = Buffer.from(sound)
    const cut = Math.floor(random() * bytes.length)
    let text = n % 3 === 0 ? bytes.subarray(0, cut) : bytes
    if (n % 3 !== 0)
      for (let k = 0; k < 1 + n / 10; k++) text[Math.floor(random() * text.length)] = Math.floor(random() * 256)
    if (n % 5 === 0) text = Buffer.concat([text.subarray(cut), text.subarray(0, cut)])
    const { load } = place(text)
    const store = load()
    const was = store.problem !== undefined
    const { backup } = store.repair()
    assert.equal(backup !== undefined, was)
    assert.equal(load({ tolerant: false }).problem, undefined)
  }
})
