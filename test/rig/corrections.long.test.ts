// R21 with a real process on a machine whose clock is changed: a board that starts at 1970 or stale, whose clock then jumps 70
// years ahead, 14 days back and back to 1971, and finally gets the time from its upstream. Readings taken meanwhile wait for it,
// are corrected once in the database and on the way upstream, keep their order and their uuid, also over a kill -9.
import assert from 'node:assert/strict'
import { createSocket, type Socket } from 'node:dgram'
import { after, test } from 'node:test'
import { buildTimeResponse, controlSeq } from '../../src/protocol/control'
import { COMMAND } from '../../src/wire/commands'
import { askControl } from '../lib/control'
import { Machine, until } from '../lib/gateway'
import { inTheRig, setClock } from '../lib/rig'

/** later than any build of this */
const TRUE = Date.UTC(2036, 2, 1)
const DAY = 86_400_000
const WEB = 8002
const PAGE = 500

/** An upstream that answers the time when the test says so, and counts all other packets. */
class TimeServer {
  readonly times: number[] = []
  trueAt: number | null = null
  readonly #socket: Socket = createSocket('udp4')
  readonly #open: Promise<void>

  constructor(readonly port: number) {
    this.#open = new Promise(resolve => this.#socket.bind(port, '127.0.0.1', resolve))
    this.#socket.on('message', (packet, { port: from }) => {
      if (packet[0] === COMMAND.TIME_REQUEST) {
        if (this.trueAt === null) return
        const seconds = Math.floor((this.trueAt + performance.now()) / 1000)
        this.#socket.send(buildTimeResponse(controlSeq(packet), seconds), from)
      } else if (packet.length > 16 && packet[0]! >= 0x2a) this.times.push(packet.readUIntBE(7, 6))
    })
  }

  /** From now on it is TRUE. */
  async tell(): Promise<void> {
    await this.#open
    this.trueAt = TRUE - performance.now()
  }

  close(): void {
    this.#socket.close()
  }
}

interface Row {
  packet_uuid: string
  timestamp_raw: number
}

/** All of them, newest first, page by page: packets that arrive meanwhile move the pages. */
async function rows(query = ''): Promise<Row[]> {
  const all = new Map<string, Row>()
  for (let offset = 0; ; offset += PAGE) {
    const response = await fetch(`http://127.0.0.1:${WEB}/api/data/packets?limit=${PAGE}&offset=${offset}${query}`)
    assert.equal(response.status, 200)
    const { packets } = (await response.json()) as { packets: Row[] }
    for (const row of packets) all.set(row.packet_uuid, row)
    if (packets.length < PAGE) return [...all.values()]
  }
}

const byUuid = (list: readonly Row[]): Map<string, number> => new Map(list.map(r => [r.packet_uuid, r.timestamp_raw]))

inTheRig(
  () => {
    for (const [k, start] of [Date.UTC(1971, 0, 1), Date.UTC(2026, 4, 1)].entries())
      test(`R21: a gateway started at ${new Date(start).toISOString()} is corrected once, rows, order and uuids kept`, async () => {
        setClock(start)
        const began = performance.now()
        const server = new TimeServer(9100 + k)
        const source = { name: 'up', type: 'uptime', interval_ms: 200 }
        const machine = new Machine(`/run/time${k}`, 'run', {
          device_id: 'GW',
          assigned_id: 5,
          web_user: { auth_enabled: false },
          gateway: {
            sources: [source],
            uplinks: [{ name: 'u', medium: 'UDP', host: '127.0.0.1', port: server.port, delivery: 'best_effort' }],
          },
        })
        after(async () => {
          await machine.stop('SIGKILL')
          server.close()
        })
        const status = () => askControl(machine.dataDir, 'status')
        const facts = async (more: number): Promise<void> => {
          const { intake } = await status()
          await until(`${more} more facts`, async () => (await status()).intake.facts >= intake.facts + more)
        }
        await machine.start(['--port', String(WEB)], WEB)
        await facts(4)
        for (const jump of [70 * 365 * DAY, -14 * DAY, -3_600_000]) {
          setClock(Date.now() + jump)
          await facts(8)
        }
        setClock(Date.UTC(1971, 0, 1))
        await facts(8)
        const unsure = await status()
        assert.equal(unsure.time.quality, 'unsynced')
        assert.ok(unsure.time.jumps >= 2, JSON.stringify(unsure.time))
        assert.match(machine.run('status').stdout, /time unsynced/)
        assert.deepEqual(server.times, [], 'nothing is sent upstream without a time')
        await until('its rows are present', async () => (await rows()).length >= 24)
        const before = byUuid(await rows())

        await server.tell()
        await until('the time is right', async () => (await status()).time.quality === 'server')
        await facts(4)
        assert.match(machine.run('status').stdout, /time server/)
        const right = await until('the database is corrected', async () => {
          const list = await rows()
          return list.length > before.size && list.every(row => row.timestamp_raw > TRUE / 1000 - 600) ? list : null
        })
        const spent = performance.now() - began
        for (const { timestamp_raw } of right) {
          assert.ok(timestamp_raw * 1000 >= TRUE - spent - 3000, `${timestamp_raw} is before the start`)
          assert.ok(timestamp_raw * 1000 <= TRUE + spent + 3000, `${timestamp_raw} is in the future`)
        }
        const after1 = byUuid(right)
        for (const uuid of before.keys()) assert.ok(after1.has(uuid), 'a uuid is kept')
        // the list is newest first, as the log has them
        const uuids = (list: readonly Row[]): string[] => list.map(row => row.packet_uuid).filter(id => before.has(id))
        const order = uuids(right)
        assert.equal(new Set(order).size, before.size)
        const inTime = right.map(row => row.timestamp_raw)
        assert.deepEqual(
          inTime,
          [...inTime].sort((a, b) => b - a),
        )
        assert.equal((await rows(`&until=${Math.floor((TRUE - spent) / 1000) - 3}`)).length, 0)
        assert.ok((await rows(`&since=${Math.floor((TRUE - spent) / 1000) - 3}`)).length >= right.length)
        await until('the backlog was sent', () => server.times.length >= right.length)
        for (const time of server.times) assert.ok(Math.abs(time - TRUE) < 2 * spent + 5000, `${time} went up`)
        for (let n = 1; n < server.times.length; n++)
          assert.ok(server.times[n]! > server.times[n - 1]!, `in order: ${server.times}`)

        await machine.stop('SIGKILL')
        setClock(start)
        server.trueAt = null
        await machine.start(['--port', String(WEB)], WEB)
        const again = await until('the rows are back', async () => {
          const list = await rows()
          return list.length >= right.length ? list : null
        })
        const kept = byUuid(again)
        for (const [uuid, time] of after1) if (before.has(uuid)) assert.equal(kept.get(uuid), time, 'corrected once')
        assert.equal((await status()).time.quality, 'saved')
        assert.deepEqual(uuids(again), order)
        await machine.stop()
      })
  },
  { memory: 1024 },
)
