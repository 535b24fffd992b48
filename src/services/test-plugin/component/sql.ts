// The SQL view over a temporary log, in its worker thread: counts, pages, one packet with its sensors, filters.

import assert from 'node:assert/strict'
import type { FlashLog } from '../../../log'
import type { PluginCheck } from '../checks'
import { Database } from '../program'
import { testFact, withLog } from './log'

const FACTS = 120

async function withView(dir: string, ask: (db: Database, log: FlashLog) => Promise<void>) {
  await withLog(dir, async log => {
    for (let k = 0; k < FACTS; k++) log.appendFact(testFact(k), { medium: 'UDP' })
    // a duplicate packet is one row
    log.appendFact(testFact(FACTS - 1), { medium: 'UDP' })
    await log.flush()
    const db = new Database({ log })
    try {
      await db.connect()
      await ask(db, log)
    } finally {
      await db.close()
    }
  })
}

const seconds = (k: number): number => Math.floor(testFact(k).tRaw / 1000)

export const sqlChecks = (folder: (name: string) => string): readonly PluginCheck[] => [
  [
    'devices, packets and sensors of a log',
    () =>
      withView(folder('sql'), async db => {
        const { devices, total } = await db.queryDevices(10, 0)
        assert.equal(total, 3)
        assert.equal(
          devices.reduce((sum, { packet_count }) => sum + packet_count, 0),
          FACTS,
        )
        const page = await db.queryPackets({ limit: 50, offset: 50 })
        assert.equal(page.total, FACTS)
        assert.deepEqual(
          page.packets.map(packet => packet.timestamp_raw),
          Array.from({ length: 50 }, (_, k) => seconds(FACTS - 51 - k)),
        )
        const first = page.packets[0]!
        const found = await db.queryPacket(first.packet_uuid)
        assert.equal(found?.sensors.length, 2)
        assert.equal(found?.sensors[0]?.normalized_value, testFact(FACTS - 51).sensors[0]!.value)
        assert.equal(await db.queryPacket('00000000-0000-8000-8000-000000000000'), null)
        const failed = await db.querySensors({ sensor_id: 'H1', since: seconds(10), until: seconds(20), limit: 50 })
        assert.equal(failed.total, 11)
        assert.equal(failed.sensors.filter(sensor => sensor.normalized_value === null).length, 3)
      }),
  ],
  [
    'texts are parameters, never SQL',
    () =>
      withView(folder('sql-text'), async db => {
        const { total } = await db.queryPackets({ device_id: "x' OR '1'='1" })
        assert.equal(total, 0)
      }),
  ],
]
