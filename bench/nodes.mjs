// Many nodes report in turn to one gateway (`serve`) over UDP: 20 000 of them, six sensors each, every value changing, no key
// frames, so that a template that were lost would show as a refusal (NEED_FULL). Half of the templates find no room in
// memory and wait in the spill. Gated: no loss, no refusal, the bytes that go to flash, the lag; the rest is printed.
// How much the receiver keeps, apart from a gateway, and whether every value is right: test/unit/pipeline/spill.test.ts.
import { answer, field, freePort, Gateway, pause } from './udp/gateway.mjs'

const NODES = 20_000
const ROUNDS = 4
/** packets a second: every node each two seconds */
const RATE = 10_000
/** a record of six readings, and what the spill may write beside it */
const BYTES_PER_PACKET = 256
const LAG_P99_MS = 50

/** `put(key, value)` takes every figure, `gate(key, value, budget)` those that must not be over. */
export async function benchNodes({ put, gate }) {
  const port = await freePort()
  const gateway = new Gateway(port, { env: {} })
  let sender
  try {
    await gateway.up()
    sender = await field(port, NODES, 6)
    await pause(300)
    await gateway.settled()
    const before = gateway.status()
    await answer(gateway.child, 'reset')
    for (let round = 0; round < ROUNDS; round++) await answer(sender, { rate: RATE, count: NODES })
    const { p50, p99, cpu_s, rss_mb } = await answer(gateway.child, 'get')
    await gateway.settled()
    const { received, log } = gateway.status()
    const packets = ROUNDS * NODES
    const written = ({ log, received }) => log.bytes_written_today + received.spill_bytes_written
    const key = what => `nodes/${NODES}/${what}`
    gate(key('lost'), NODES + packets - received.packets, 0)
    gate(key('refused'), received.refused, 0)
    put(key('us_per_packet'), Math.round((cpu_s / packets) * 1e7) / 10)
    put(key('lag_p50_ms'), p50)
    gate(key('lag_p99_ms'), p99, LAG_P99_MS)
    put(key('rss_mb'), rss_mb)
    const bytes = (written({ log, received }) - written(before)) / packets
    gate(key('written_bytes_per_packet'), Math.round(bytes), BYTES_PER_PACKET)
  } finally {
    sender?.kill()
    await gateway.stop()
  }
}
