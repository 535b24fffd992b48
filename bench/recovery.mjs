// Recovery after an outage: a gateway with a backlog in its log finds its upstream again (UDP with the delivery exchange, two
// real processes on this machine). Facts a second until the upstream has everything, and how long a reading made meanwhile
// takes to be sent. The backlog is written with the library before the gateway starts; both use the same disk.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ask, backlog, Fleet, freeTcp, freeUdp, LIMIT_MS, until } from './fleet.mjs'

const FACTS = 200_000
/** new facts that may still be in flight at the end */
const LIVE = 20
const AID = 4711
const MARK = 80_000

/** `put(key, value)` records every figure, `mark(key, value, hoped)` the rate. */
export async function benchRecovery({ FlashLog }, script, { put, mark }) {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-bench-recovery-'))
  const fleet = new Fleet(script, dir)
  try {
    const packets = await freeUdp()
    await backlog(FlashLog, join(dir, 'gw', 'data', 'log'), FACTS, 'GW', AID)
    const serverWeb = String(await freeTcp())
    const server = fleet.start(
      'up',
      'serve',
      {},
      '--host',
      '127.0.0.1',
      '--port',
      String(packets),
      '--web-port',
      serverWeb,
    )
    await until('the upstream answers', () => ask(server, 'status'))
    const gateway = fleet.start(
      'gw',
      'run',
      {
        device_id: 'GW',
        assigned_id: AID,
        gateway: { sources: [], uplinks: [{ name: 'up', medium: 'UDP', host: '127.0.0.1', port: packets }] },
      },
      '--port',
      String(await freeTcp()),
    )
    const began = await until('the first facts arrive', async () => {
      const { uplinks } = await ask(gateway, 'status')
      return uplinks.up.acked > 0 && { at: performance.now(), acked: uplinks.up.acked }
    })
    const waits = []
    let acked = began.acked
    for (;;) {
      const before = performance.now()
      await ask(gateway, 'transmit', { sensors: JSON.stringify([['live', 'OK', waits.length, 'K']]) })
      waits.push(performance.now() - before)
      const { uplinks } = await ask(gateway, 'status')
      acked = uplinks.up.acked
      // a few of our own are always in flight
      if (uplinks.up.backlog <= LIVE) break
      if (performance.now() - began.at > LIMIT_MS) throw new Error(`${uplinks.up.backlog} facts are left`)
    }
    const seconds = (performance.now() - began.at) / 1000
    waits.sort((a, b) => a - b)
    const received = await until('every fact arrives', async () => {
      const { received } = await ask(server, 'status')
      return received.facts >= FACTS && received
    })
    mark('recovery/facts_per_s', Math.round((acked - began.acked) / seconds), `≥ ${MARK}`)
    put('recovery/seconds', Math.round(seconds * 10) / 10)
    put('recovery/live_ms/p50', Math.round(waits[waits.length >> 1]))
    put('recovery/live_ms/max', Math.round(waits.at(-1)))
    put('recovery/sent_twice', received.duplicates)
  } finally {
    await fleet.end()
    rmSync(dir, { recursive: true, force: true })
  }
}
