// UDP of the built program. In: a gateway (`serve`) that receives, decodes and logs what a separate process sends at a
// rate, in rising steps until packets are lost; node:dgram and the addon, SQL view off and on. Out: packets per second of
// node:dgram, of the medium without and with the addon. Rates are printed, since they depend on the machine; the lag of
// the loop, the heap per packet and the ratio of the batches to node:dgram are gated, and so is loss at the lowest rate.
import { answer, better, field, freePort, Gateway, hasAddon, pause, roundOf } from './udp/gateway.mjs'
import { benchOut } from './udp/out.mjs'

const SECONDS = 1.5
/** keys measured by receiving(), after the method */
const FIGURES = ['', '/lag_p50_ms', '/lag_p99_ms', '/us_per_packet', '/rss_mb']
const NODES = 16
const LAG_P99_MS = 50

const STEPS = {
  dgram: { mark: 40_000, rates: [20_000, 40_000, 50_000, 60_000, 80_000], env: { OS_NODE_NO_ADDON: '1' } },
  addon: { mark: 200_000, rates: [40_000, 70_000, 100_000, 120_000, 140_000, 170_000, 200_000, 240_000], env: {} },
  // without a mark: the view takes the packets later, which is `sql/packets_per_s`
  addon_sql: {
    rates: [7_500, 15_000, 20_000, 30_000, 40_000, 50_000, 60_000, 80_000],
    env: {},
    sql: true,
  },
}
/** Other load on the machine may have taken the core: a rate is tried so often; the lowest, which is gated, more often. */
const TRIES = 3
const LOWEST_TRIES = 10

/** One step at a rate: the loss, and the state of the gateway. */
async function step(gateway, sender, rate, seconds) {
  const before = await gateway.settled()
  await answer(gateway.child, 'reset')
  const others = roundOf(gateway.child, sender)
  const { count, seconds: took } = await answer(sender, { rate, count: rate * seconds })
  const busy = others()
  await pause(100)
  const felt = await answer(gateway.child, 'get')
  const after = await gateway.settled()
  const lost = count - (after.facts - before.facts)
  return { ...felt, busy, count, lost, dropped: after.dropped - before.dropped, real: Math.round(count / took) }
}

const isGood = ({ lost, p99 }) => lost === 0 && p99 <= LAG_P99_MS

/** The best of some tries. */
async function bestStep(gateway, sender, rate, tries) {
  let best
  for (let k = 0; k < tries && !(best && isGood(best)); k++)
    best = better(best, await step(gateway, sender, rate, SECONDS), isGood)
  return best
}

async function receiving(how, { put, gate, mark, problems }) {
  const port = await freePort()
  const gateway = new Gateway(port, STEPS[how])
  let sender
  try {
    await gateway.up()
    sender = await field(port, NODES, 1)
    // a program just started is slow: losses while it warms up do not count
    await step(gateway, sender, 20_000, SECONDS)
    let best
    let lag = Number.POSITIVE_INFINITY
    for (const rate of STEPS[how].rates) {
      const got = await bestStep(gateway, sender, rate, best ? TRIES : LOWEST_TRIES)
      const { real, lost, dropped, count, p50, p99, max, cpu_s, rss_mb } = got
      console.log(
        `udp/in/${how}: ${real}/s lost ${lost} (kernel ${dropped}) of ${count}, lag p50 ${p50} p99 ${p99} max ${max} ms, ` +
          `${((cpu_s / count) * 1e6).toFixed(1)} µs/packet, RSS ${rss_mb} MB`,
      )
      if (got.busy && !isGood(got)) console.log(`udp/in/${how}: others had the processors: this is not judged`)
      else if (lost > 0 && !best) problems.push(`udp/in/${how}: packets are lost at ${rate}/s`)
      else lag = Math.min(lag, p99)
      if (lost > 0) break
      best = got
    }
    mark(`udp/in/${how}`, best?.real ?? 0, STEPS[how].mark && `≥ ${STEPS[how].mark}`)
    if (best) {
      put(`udp/in/${how}/lag_p50_ms`, best.p50)
      if (lag < Number.POSITIVE_INFINITY) gate(`udp/in/${how}/lag_p99_ms`, lag, LAG_P99_MS)
      put(`udp/in/${how}/us_per_packet`, Math.round((best.cpu_s / best.count) * 1e7) / 10)
      put(`udp/in/${how}/rss_mb`, best.rss_mb)
    }
  } finally {
    sender?.kill()
    await gateway.stop()
  }
}

/**
 * `put(key, value)` records every figure, `gate(key, value, budget)` those with a budget, `gateLeast` those with a minimum,
 * `mark(key, value, hoped)` rates.
 */
export async function benchUdp({ wanted, starts, ...figures }) {
  if (starts('udp/out/') || wanted('udp/in/addon/heap_bytes_per_packet')) await benchOut(figures, hasAddon)
  for (const how of Object.keys(STEPS))
    if ((how === 'dgram' || hasAddon) && FIGURES.some(figure => wanted(`udp/in/${how}${figure}`)))
      await receiving(how, figures)
}
