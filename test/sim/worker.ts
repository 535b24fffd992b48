// Runs the seeds that it receives over its channel, one after the other, and reports each.
import { readFileSync } from 'node:fs'
import { type Compiled, compile } from './program'
import { type RunOptions, type RunResult, simulate } from './simulate'

export { compile, simulate }

/** Runs a seed once with one text for all processes and once with texts apart: the traces must be the same. */
export async function simulateTwice(seed: number, compiled: Compiled, options: RunOptions): Promise<RunResult> {
  const result = await simulate(seed, compiled, options)
  if (result.failure !== undefined) return result
  const again = await simulate(seed, compiled, { ...options, apart: !options.apart })
  if (again.hash === result.hash && again.failure === undefined) return result
  const failure = `two runs of the seed differ (one with --apart): ${result.hash} and ${again.hash}`
  return { ...result, differs: true, failure: again.failure === undefined ? failure : `${failure}\n${again.failure}` }
}

interface Order extends Omit<RunOptions, 'trace' | 'said'> {
  seed: number
  twice: boolean
  /** prints every event */
  trace?: boolean
  /** prints what the gateways log */
  said?: boolean
}

if (process.argv[2] === '--image') {
  const compiled = compile(readFileSync(process.argv[3]!, 'utf8'))
  process.on('message', (order: Order) => {
    void (async () => {
      const started = performance.now()
      const run = order.twice ? simulateTwice : simulate
      const { trace, said, ...options } = order
      const result = await run(order.seed, compiled, {
        ...options,
        ...(trace && { trace: line => console.log(line) }),
        ...(said && { said: line => process.stdout.write(line) }),
      })
      const plan = { ...result.plan, faults: undefined }
      process.send!({ ...result, plan, realMs: performance.now() - started })
    })()
  })
  process.send!('ready')
}
