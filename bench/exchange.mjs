// The delivery exchange in both directions at the same time: a gateway receives the backlog of another one and forwards it to its
// upstream, every packet acknowledged on both paths (UDP, three real processes on this machine). Packets a second through that gateway,
// each counted once, from the first that its upstream acknowledged to the last.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ask, backlog, Fleet, freeTcp, freeUdp, until } from './fleet.mjs'

const FACTS = 200_000
const MARK = 60_000

/** `mark(key, value, hoped)` records the rate, `problems` the faults. */
export async function benchExchange({ FlashLog }, script, { mark, put, problems }) {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-bench-exchange-'))
  const fleet = new Fleet(script, dir)
  const [middlePort, endPort] = [await freeUdp(), await freeUdp()]
  const to = port => [{ name: 'up', medium: 'UDP', host: '127.0.0.1', port }]
  const config = (device_id, assigned_id, gateway) => ({ device_id, assigned_id, gateway: { sources: [], ...gateway } })
  try {
    await backlog(FlashLog, join(dir, 'first', 'data', 'log'), FACTS, 'FIRST', 4711)
    const where = ['--host', '127.0.0.1', '--port', String(endPort), '--web-port', String(await freeTcp())]
    const end = fleet.start('end', 'serve', {}, ...where)
    await until('the upstream answers', () => ask(end, 'status'))
    const receivers = [{ name: 'in', medium: 'UDP', listen_host: '127.0.0.1', port: middlePort }]
    const both = config('MIDDLE', 4712, { receivers, uplinks: to(endPort) })
    const middle = fleet.start('middle', 'run', both, '--port', String(await freeTcp()))
    await until('it listens and has its upstream', async () => {
      const { links } = await ask(middle, 'status')
      return links.in.state === 'up' && links.up.state === 'up'
    })
    const first = config('FIRST', 4711, { uplinks: to(middlePort) })
    fleet.start('first', 'run', first, '--port', String(await freeTcp()))
    const acked = async () => (await ask(middle, 'status')).uplinks.up.acked
    const began = await until('the first packets pass', async () => {
      const count = await acked()
      return count > 0 && { at: performance.now(), count }
    })
    const all = await until('all packets pass', async () => {
      const count = await acked()
      return count >= FACTS && { at: performance.now(), count }
    })
    const { facts, duplicates } = (await ask(end, 'status')).received
    if (facts < FACTS) problems.push(`exchange/both: ${FACTS} facts were sent, ${facts} came`)
    mark('exchange/both', Math.round(((all.count - began.count) / (all.at - began.at)) * 1000), `≥ ${MARK}`)
    put('exchange/both/sent_twice', duplicates)
  } finally {
    await fleet.end()
    rmSync(dir, { recursive: true, force: true })
  }
}
