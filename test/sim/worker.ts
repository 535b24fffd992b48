// Runs the seeds that it receives over its channel, one after the other, and reports each.
import { readFileSync } from 'node:fs'
import { compile } from './program'
import { type RunOptions, simulate } from './simulate'

export { compile, simulate }

interface Order extends RunOptions {
  seed: number
  twice: boolean
}

if (process.argv[2] === '--image') {
  const compiled = compile(readFileSync(process.argv[3]!, 'utf8'))
  process.on('message', (order: Order) => {
    void (async () => {
      const started = performance.now()
      const { plan: _, faults, ...result } = await simulate(order.seed, compiled, order)
      if (order.twice && result.failure === undefined) {
        const again = await simulate(order.seed, compiled, { ...order, apart: !order.apart })
        if (again.hash !== result.hash)
          result.failure = `two runs of the seed differ (one with --apart): ${result.hash} and ${again.hash}`
      }
      process.send!({ ...result, faults: faults.length, realMs: performance.now() - started })
    })()
  })
  process.send!('ready')
}
