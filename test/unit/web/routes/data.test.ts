// The data routes: checked parameters (S10), readable units, one packet by its uuid, and a database that is not available.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { OsError } from '../../../../src/lib/errors'
import { webContext } from '../../../../src/web/from-gateway'
import { ask, dbError, FakeDb, fakeContext, serve, UUID } from '../helper'

test('S10: data routes pass on checked parameters and clamp limit and offset', async t => {
  const db = new FakeDb()
  const server = await serve(t, fakeContext({ db }))
  const asked = async (path: string): Promise<unknown> => {
    assert.equal((await ask(server, path)).status, 200, path)
    return JSON.parse(JSON.stringify(db.asked.pop()))
  }
  assert.deepEqual(await asked('/api/data/devices'), { limit: 100, offset: 0 })
  assert.deepEqual(await asked('/api/data/devices?limit=0&offset=-5'), { limit: 1, offset: 0 })
  assert.deepEqual(await asked(`/api/data/devices?limit=${'9'.repeat(400)}&offset=7`), { limit: 500, offset: 7 })
  assert.deepEqual(await asked('/api/data/packets'), { limit: 50, offset: 0 })
  assert.deepEqual(await asked('/api/data/packets?device_id=a%20b%2Bc+d&status=ONLINE&since=-1&until=%2B99&limit=2'), {
    device_id: 'a b+c d',
    status: 'ONLINE',
    since: -1,
    until: 99,
    limit: 2,
    offset: 0,
  })
  assert.deepEqual(await asked('/api/data/sensors?sensor_id=x&device_id=&_other=1'), {
    sensor_id: 'x',
    limit: 50,
    offset: 0,
  })
  const sensor = '/api/data/history?device_id=d&sensor_id=s'
  assert.deepEqual(await asked(sensor), { device_id: 'd', sensor_id: 's', buckets: 200 })
  assert.deepEqual(await asked(`${sensor}&since=1&until=2&buckets=99999`), {
    device_id: 'd',
    sensor_id: 's',
    since: 1,
    until: 2,
    buckets: 1000,
  })
  assert.equal(((await asked(`${sensor}&buckets=0`)) as { buckets: number }).buckets, 1)
  for (const query of [
    '',
    '?device_id=d',
    '?sensor_id=s',
    '?device_id=d&sensor_id=',
    '?device_id=d&sensor_id=s&buckets=x',
  ]) {
    const { status, json } = await ask(server, `/api/data/history${query}`)
    assert.deepEqual([status, json.code], [400, 'BAD_REQUEST'], query)
  }
  assert.equal((await ask(server, sensor, { token: false })).status, 401)
})

test('units=display converts values and units to readable ones, everywhere; other units are 400', async t => {
  const db = new FakeDb()
  const sensor = { sensor_id: 't', normalized_value: 292.72999999999996, normalized_unit: 'K' }
  const none = { sensor_id: 'e', normalized_value: null, normalized_unit: null }
  const packet = { payload_json: { id: 'd', s1_id: 't', s1_u: 'Pa', s1_v: 101_325 } }
  const bucket = { t: 0, count: 1, min: 101_325, mean: null, max: 0.1 + 0.2 }
  let units = ['Pa']
  db.querySensors = async () => ({ ok: true, sensors: [sensor, none] })
  db.queryPackets = async () => ({ ok: true, packets: [packet] })
  db.queryPacket = async () => ({ ok: true, packet, sensors: [sensor] })
  db.queryHistory = async () => ({ ok: true, buckets: [bucket], units })
  const server = await serve(t, fakeContext({ db, latest: () => [latest] }))
  const history = '/api/data/history?device_id=d&sensor_id=s&'
  const paths = ['/api/data/sensors?', '/api/data/packets?', `/api/data/packets/${UUID}?`, history, '/api/dashboard?']
  const read = async (path: string) => (await ask(server, path)).json as Record<string, unknown>
  const shownSensor = { ...sensor, normalized_value: 19.58, normalized_unit: '°C' }
  const shownPacket = { payload_json: { id: 'd', s1_id: 't', s1_u: 'hPa', s1_v: 1013.25 } }
  const [sensors, packets, one, buckets, dashboard] = await Promise.all(paths.map(path => read(`${path}units=display`)))
  assert.deepEqual(sensors!.sensors, [shownSensor, none])
  assert.deepEqual(packets!.packets, [shownPacket])
  assert.deepEqual([one!.packet, one!.sensors], [shownPacket, [shownSensor]])
  assert.deepEqual([buckets!.buckets, buckets!.units], [[{ ...bucket, min: 1013.25, max: 0.003 }], ['hPa']])
  assert.deepEqual((dashboard!.dashboard as { latest: (typeof latest)[] }).latest[0]!.sensors, [
    { id: 't', status: 'OK', unit: '°C', value: 27 },
  ])
  // a value with two units stays as it is stored
  units = ['K', 'Pa']
  const mixed = await read(`${history}units=display`)
  assert.deepEqual([mixed.buckets, mixed.units], [[bucket], units])
  for (const path of paths) {
    for (const canonical of ['', 'units=canonical']) {
      const text = JSON.stringify(await read(`${path}${canonical}`))
      assert.doesNotMatch(text, /°C|hPa/)
    }
    const { status, json } = await ask(server, `${path}units=imperial`)
    assert.deepEqual([status, json.error], [400, 'units must be one of canonical, display'], path)
  }
  assert.equal((await ask(server, '/api/events?units=imperial')).status, 400)
})

const latest = {
  device_id: 'pi-shed',
  state: 'ONLINE',
  t_raw: 1_710_000_000_000,
  sensors: [{ id: 't', status: 'OK', unit: 'K', value: 300.15 }],
  medium: 'local',
  source_aid: 42,
}

test('a parameter that is no integer, occurs twice or is badly encoded is 400', async t => {
  const server = await serve(t)
  for (const query of [
    'limit=abc',
    'limit=1.5',
    'limit=',
    'limit',
    'offset=1e3',
    'since=0x10',
    'until=NaN',
    'limit=1&limit=2',
    'limit=%31%',
    'device_id=%ff',
    'x=%zz',
    'device_id=a%00b',
    `${'a=1&'.repeat(100)}`,
  ]) {
    const { status, json } = await ask(server, `/api/data/packets?${query}`)
    assert.equal(status, 400, query)
    assert.equal(json.ok, false)
    assert.equal(json.code, 'BAD_REQUEST')
    assert.equal(typeof json.error, 'string')
  }
})

test('S10: any byte string in any query is answered 200 or 400', async t => {
  const server = await serve(t)
  let seed = 7
  const random = (n: number): number => {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0
    return (seed >>> 8) % n
  }
  const keys = [
    'limit',
    'offset',
    'since',
    'until',
    'device_id',
    'status',
    'sensor_id',
    'buckets',
    'sections',
    '__proto__',
    '',
  ]
  const paths = [
    '/api/data/devices',
    '/api/data/packets',
    '/api/data/sensors',
    '/api/data/history',
    '/api/dashboard',
    '/health',
    '/api/transport',
  ]
  for (let k = 0; k < 300; k++) {
    let query = ''
    for (let piece = random(4); piece >= 0; piece--) {
      query += `${keys[random(keys.length)]}=`
      for (let n = random(12); n > 0; n--) {
        // any byte that the request line can contain: no control character, space or '#'
        const byte = 33 + random(94)
        query +=
          random(3) === 0
            ? `%${random(256).toString(16).padStart(2, '0')}`
            : String.fromCharCode(byte === 35 ? 37 : byte)
      }
      query += '&'
    }
    const { status } = await ask(server, `${paths[random(paths.length)]}?${query}`)
    assert.ok(status === 200 || status === 400, `${status} for ${query}`)
  }
})

test('one packet is found by its uuid, a missing one is 404, an empty uuid 400', async t => {
  const db = new FakeDb()
  const server = await serve(t, fakeContext({ db }))
  const found = await ask(server, `/api/data/packets/${UUID}`)
  assert.deepEqual(found.json, { ok: true, packet: { packet_uuid: UUID }, sensors: [] })
  const missing = await ask(server, '/api/data/packets/no%20such%2Fthing')
  assert.equal(missing.status, 404)
  assert.deepEqual(missing.json, {
    ok: false,
    error: 'packet not found',
    code: 'NOT_FOUND',
    packet_uuid: 'no such/thing',
  })
  for (const path of ['/api/data/packets/', '/api/data/packets/%20']) {
    const { status, json } = await ask(server, path)
    assert.equal(status, 400)
    assert.deepEqual(json, { ok: false, error: 'packet_uuid is required', code: 'BAD_REQUEST' })
  }
  assert.equal((await ask(server, '/api/data/packets/', { token: false })).status, 401)
  for (const bad of ['%', '%zz', '%ff', '%00']) {
    assert.equal((await ask(server, `/api/data/packets/${bad}`)).status, 400, bad)
  }
})

test('a database that is off, starting or broken is 503 with its text and nothing more', async t => {
  const db = new FakeDb()
  const context = fakeContext({ db })
  const server = await serve(t, context)
  const paths = [
    '/api/data/devices',
    '/api/data/packets',
    '/api/data/sensors',
    `/api/data/packets/${UUID}`,
    '/api/data/history?device_id=d&sensor_id=s',
  ]
  const expect = async (error: string, code: string): Promise<void> => {
    for (const path of paths) {
      const answer = await ask(server, path)
      assert.equal(answer.status, 503, path)
      assert.deepEqual(answer.json, { ok: false, error, code })
    }
  }
  db.fails = dbError('DB_STARTING')
  await expect('database starting', 'DB_STARTING')
  db.fails = dbError('DB_UNAVAILABLE')
  await expect('database unavailable', 'DB_UNAVAILABLE')
  db.fails = new Error('SQLITE_CORRUPT in /data/sql')
  await expect('database unavailable', 'DB_UNAVAILABLE')
  assert.ok(context.lines.some(line => line.startsWith('error') && line.includes('SQLITE_CORRUPT')))
  // kept off: the reason is returned, and the log, which has it already, is left alone
  const before = context.lines.length
  db.fails = new OsError('DB_UNAVAILABLE', 'database unavailable', { details: { reason: 'kept off by safe mode' } })
  for (const path of paths) {
    const { status, json } = await ask(server, path)
    const body = { ok: false, error: 'database unavailable', code: 'DB_UNAVAILABLE', reason: 'kept off by safe mode' }
    assert.deepEqual([status, json], [503, body])
  }
  assert.equal(context.lines.length, before)
  context.db = null
  await expect('database not configured', 'DB_NOT_CONFIGURED')
})

test('a gateway that has not started says that its database is starting, not that there is none', async t => {
  const gateway = (database: object | null, code: 'STARTING' | 'LINK_DOWN') => {
    const ready = (): never => {
      throw new OsError(code, 'x')
    }
    const { db } = webContext({ config: { dataDir: '' }, gateway: { sources: {}, database, ready } } as never)
    return serve(t, fakeContext({ db }))
  }
  for (const [server, status, error] of [
    [await gateway(new FakeDb(), 'STARTING'), 503, 'database starting'],
    [await gateway(new FakeDb(), 'LINK_DOWN'), 200, undefined],
    [await gateway(null, 'STARTING'), 503, 'database not configured'],
  ] as const) {
    const { json, headers, ...answer } = await ask(server, '/api/data/devices')
    assert.deepEqual([answer.status, json.error], [status, error])
    assert.equal(headers['retry-after'], error === 'database starting' ? '5' : undefined)
  }
})
