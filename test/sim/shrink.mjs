// Runs seeds in a process of their own (worker.ts), one at a time, and shrinks one that fails. A process that ends (no memory, a crash of V8) is the
// failure of the seed that ran, and the next seed gets a new process.
import { fork } from 'node:child_process'

/** Functions are compiled immediately, and their garbage is collected in large steps. A quarter less time. */
const V8 = ['--max-old-space-size=1500', '--min-semi-space-size=64', '--max-semi-space-size=64', '--always-sparkplug']
/** runs of a shrink at most */
const SHRINK_RUNS = 150

export function seedProcess(worldFile, imageFile) {
  let child
  /** The result of a seed; without plan and counts where the process ended, and which of two runs ended it is unknown. */
  const run = order =>
    new Promise((resolve, reject) => {
      child ??= fork(worldFile, ['--image', imageFile], { execArgv: V8 })
      const settle = (end, value) => {
        child?.removeAllListeners()
        end(value)
      }
      child.on('error', error => settle(reject, error))
      child.on('exit', (code, signal) => {
        child = undefined
        const failure = `its process ended with ${code ?? signal}`
        resolve({ seed: order.seed, failure, ended: true, differs: Boolean(order.twice) })
      })
      child.on('message', result => {
        if (result !== 'ready') settle(resolve, result)
      })
      child.send(order)
    })
  const end = () => {
    child?.removeAllListeners()
    child?.disconnect()
    child = undefined
  }
  return { run, end }
}

/** Leaves out faults as long as the seed still fails; `run(keep)`: its result with these faults, by number, or with all. Undefined where it holds. */
export async function shrink(run) {
  const whole = await run()
  if (whole.failure === undefined) return undefined
  // the plan is the same whatever is left out, so a run without faults names it where the process ended
  const faults = whole.faults ?? (await run([])).faults
  let keep = faults?.map((_, k) => k) ?? []
  let last = whole.failure
  let runs = 0
  const fails = async list => {
    runs++
    const { failure } = await run(list)
    if (failure !== undefined) last = failure
    return failure !== undefined
  }
  for (
    let size = Math.ceil(keep.length / 2);
    size >= 1 && runs < SHRINK_RUNS;
    size = size === 1 ? 0 : Math.ceil(size / 2)
  )
    for (let at = keep.length; at > 0 && runs < SHRINK_RUNS; at -= size) {
      const without = [...keep.slice(0, Math.max(0, at - size)), ...keep.slice(at)]
      if (without.length < keep.length && (await fails(without))) keep = without
    }
  return { keep, of: faults ? `${faults.length} faults` : 'its faults', failure: last }
}
