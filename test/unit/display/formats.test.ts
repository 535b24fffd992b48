// The five formats, derived from the data alone, for every shape of data.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DisplayProvider, textOf, treeText } from '../../../src/display'
import { coreText } from '../../../src/display/core-text'
import { plain } from '../../../src/display/plain'
import { prng } from '../../lib/random'

class Shown extends DisplayProvider {
  extractData(): object {
    return {}
  }
}
const provider = new Shown('p', 's', 'Title')

test('text rounds numbers to their significant digits, JSON keeps the float', () => {
  const data = { t: 292.72999999999996, list: [0.1 + 0.2, -0], rows: [{ v: Math.fround(21.45) }] }
  const texts = [provider.formatText(data), provider.formatHtml(data), treeText(plain(data))]
  for (const text of texts) {
    for (const number of ['292.73', '0.3, 0', '21.45']) assert.ok(text.includes(number), `${number} in ${text}`)
    assert.doesNotMatch(text, /\d{6}/)
  }
  assert.deepEqual(provider.formatJson(data), data)
})

test('the pipeline section shows readings in display units and its data in canonical ones', () => {
  const at = '2026-11-21T20:00:00.000Z'
  const row = { device: 'd', status: 'OK', at, medium: 'local' }
  const readings = [
    { ...row, sensor: 't', value: 292.72999999999996, unit: 'K' },
    { ...row, sensor: 'p', value: 101_325, unit: 'Pa' },
    { ...row, sensor: 'x', value: null, unit: 'Pa' },
  ]
  const text = coreText('pipeline', plain({ readings, intake: { rate: 0.1 + 0.2 } }))
  assert.match(text, /\nd +t +19\.58 °C +OK/)
  assert.match(text, /\nd +p +1013\.25 hPa +OK/)
  assert.match(text, /\nd +x +- +OK/)
  assert.match(text, /intake: rate 0\.3$/m)
})

test('the pipeline section shows the log as `status` does, and why it is degraded', () => {
  const log = { records: 17, bytes: 1658, max_bytes: 1 << 28, oldest: Date.now() - 8500, pending: 2, lost: 0 }
  const line = 'log: 17 records, 1.62 KiB (0 % full, oldest 8 s), 2 not on flash yet, lost 0, written today 1.62 KiB'
  const shown = (more: object): string | undefined =>
    coreText('pipeline', plain({ log: { ...log, bytes_written_today: 1658, ...more } })).split('\n')[0]
  assert.equal(shown({ state: 'ok' }), line)
  assert.equal(shown({ state: 'degraded', reason: 'ENOSPC' }), `${line}; degraded: ENOSPC`)
})

test('json and tree show the data, table shows its rows', () => {
  const dict = { a: 1, b: { c: [1, 2] } }
  const rows = [{ a: 1 }, { a: 2 }]
  assert.deepEqual(provider.formatJson(dict), dict)
  assert.deepEqual(provider.formatTree(dict), dict)
  assert.deepEqual(provider.formatTable(dict), [dict])
  assert.deepEqual(provider.formatTable(rows), rows)
})

test('text aligns names and values, indents nested values and prints rows in columns', () => {
  const data = {
    device_id: 'gw-1',
    assigned_id: 7,
    addresses: ['10.0.0.1', '10.0.0.2'],
    nothing: null,
    time: { quality: 'synced', offset_ms: 3 },
    links: [
      { name: 'cloud', state: 'up', rx: 12 },
      { name: 'bus', state: 'down', reason: 'no device' },
    ],
  }
  assert.equal(
    provider.formatText(data),
    [
      'device_id    gw-1',
      'assigned_id  7',
      'addresses    10.0.0.1, 10.0.0.2',
      'nothing      -',
      'time:',
      '  quality    synced',
      '  offset_ms  3',
      'links:',
      '  name   state  rx  reason',
      '  cloud  up     12  -',
      '  bus    down   -   no device',
    ].join('\n'),
  )
})

test('text prints timestamps as dates and says when a section is empty', () => {
  assert.equal(
    provider.formatText({ checked_at: 1_710_000_000_000, at: 5, count: 1_710_000_000_000 }),
    'checked_at  2024-03-09T16:00:00Z\nat          5\ncount       1710000000000',
  )
  assert.equal(provider.formatText([]), '(nothing)')
  assert.equal(provider.formatText({}), '(nothing)')
  assert.equal(provider.formatText({ a: [], b: {} }), 'a  -\nb:\n  (nothing)')
})

test('text never contains a control character from the data', () => {
  const text = textOf(plain({ 'a\x1b[2J': 'b\x1b]0;evil\x07', c: ['\r\n\t', '\u202e', '\x9b'] }))
  assert.doesNotMatch(text.replaceAll('\n', ''), /[\x00-\x1f\x7f-\x9f\u202e]/)
  assert.match(text, /evil/)
})

test('a tree is drawn with branches', () => {
  assert.equal(
    treeText(plain({ a: 1, b: { c: 2, d: [{ e: 3 }] } })),
    ['├─ a: 1', '└─ b', '   ├─ c: 2', '   └─ d', '      └─ 1', '         └─ e: 3'].join('\n'),
  )
})

test('html escapes everything and contains no style, script or handler', () => {
  const html = provider.formatHtml({
    '<b>': '<img src=x onerror=alert(1)>',
    '"': "'&",
    rows: [{ 'a"': '<' }, { z: 1 }],
  })
  assert.doesNotMatch(html, /<(?!\/?(table|thead|tbody|tr|th|td|p)\b)/)
  assert.doesNotMatch(html, /style=|<[^>]*onerror/)
  assert.match(html, /&lt;img src=x onerror=alert\(1\)&gt;/)
  assert.match(html, /<th scope="col">a&quot;<\/th><th scope="col">z<\/th>/)
})

test('values that JSON cannot represent become ones it can', () => {
  const circle: Record<string, unknown> = { name: 'x' }
  circle.self = circle
  const data = plain({
    circle,
    big: 12345678901234567890n,
    small: 5n,
    nan: Number.NaN,
    date: new Date(0),
    bytes: Buffer.from([1, 255]),
    map: new Map([['k', 1]]),
    set: new Set([1, 2]),
    fn: () => 1,
    none: undefined,
    error: new Error('why'),
    get bad(): number {
      throw new Error('no')
    },
  })
  assert.deepEqual(data, {
    circle: { name: 'x', self: '(circular)' },
    big: '12345678901234567890',
    small: 5,
    nan: 'NaN',
    date: '1970-01-01T00:00:00.000Z',
    bytes: '01ff',
    map: { k: 1 },
    set: [1, 2],
    error: 'why',
    bad: '(no)',
  })
})

test('the same object twice is not a cycle; depth and size are limited', () => {
  const shared = { a: 1 }
  assert.deepEqual(plain([shared, shared]), [{ a: 1 }, { a: 1 }])
  let deep: unknown = 1
  for (let k = 0; k < 1000; k++) deep = { deep }
  assert.ok(JSON.stringify(plain(deep)).length < 300)
  assert.ok(JSON.stringify(plain(Array.from({ length: 1e5 }, () => 1))).length < 5e6)
  assert.ok((plain({ text: 'x'.repeat(1e6) }) as { text: string }).text.length < 20_000)
})

test('a key named __proto__ changes nothing else', () => {
  const data = plain(JSON.parse('{"__proto__": {"polluted": true}, "a": 1}')) as Record<string, unknown>
  assert.equal((data as { polluted?: boolean }).polluted, undefined)
  assert.equal(({} as { polluted?: boolean }).polluted, undefined)
  assert.match(JSON.stringify(data), /"__proto__":\{"polluted":true\}/)
})

test('no data makes a format throw, and each format returns its type', () => {
  const next = prng(11)
  const make = (depth: number): unknown => {
    const kind = Math.floor(next() * (depth > 3 ? 6 : 8))
    const leaf = [null, true, next() * 1e9, `t${next()}\n<x>`, undefined, 3n][kind]
    if (kind < 6) return leaf
    const items = Array.from({ length: Math.floor(next() * 4) }, () => make(depth + 1))
    return kind === 6 ? items : Object.fromEntries(items.map((item, k) => [`k${k}`, item]))
  }
  for (let round = 0; round < 2000; round++) {
    const data = make(0) as object
    assert.equal(typeof provider.formatHtml(data), 'string')
    assert.equal(typeof provider.formatText(data), 'string')
    assert.ok(Array.isArray(provider.formatTable(data)))
    assert.equal(typeof treeText(plain(data)), 'string')
  }
})
