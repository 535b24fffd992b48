// Loaded into the gateway under test (node --require): reports the lag of its loop, its processor time and its memory. BENCH_LAG_MS:
// the resolution of lag, 1 ms. `heap`, with --expose-gc: the size of the heap, the first time after a collection, and the collections
// since. `profile` starts a CPU profile, and the next one ends it.
const { Session } = require('node:inspector')
const { monitorEventLoopDelay, PerformanceObserver } = require('node:perf_hooks')

const lag = monitorEventLoopDelay({ resolution: Number(process.env.BENCH_LAG_MS ?? 1) })
lag.enable()
let cpu = process.cpuUsage()
let collections = -1
/** of the profile that is being made */
let session
process.on('message', what => {
  if (what === 'reset') {
    lag.reset()
    cpu = process.cpuUsage()
    process.send({})
  } else if (what === 'heap') {
    if (collections < 0) {
      globalThis.gc()
      collections = 0
      new PerformanceObserver(list => {
        collections += list.getEntries().length
      }).observe({ entryTypes: ['gc'] })
    }
    process.send({ used: process.memoryUsage().heapUsed, collections })
  } else if (what === 'profile' && !session) {
    session = new Session()
    session.connect()
    session.post('Profiler.enable')
    session.post('Profiler.setSamplingInterval', { interval: 200 })
    session.post('Profiler.start', () => process.send({}))
  } else if (what === 'profile') {
    session.post('Profiler.stop', (_, { profile }) => process.send(profile))
    session.disconnect()
    session = undefined
  } else {
    const { user, system } = process.cpuUsage(cpu)
    const ms = percent => Math.round(lag.percentile(percent) / 1e4) / 100
    const rss = Math.round(process.memoryUsage.rss() / 1048576)
    process.send({
      p50: ms(50),
      p99: ms(99),
      max: Math.round(lag.max / 1e6),
      cpu_s: (user + system) / 1e6,
      rss_mb: rss,
    })
  }
})
