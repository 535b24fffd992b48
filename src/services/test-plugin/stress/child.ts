// A worker thread or child process of a stress run: gets its job, reports when it is ready, starts on command, returns its
// results. Also compares the cores. It ends with its parent.

import { parentPort } from 'node:worker_threads'
import { compareCores } from '../compare'
import { BUILT_IN_CORES } from '../cores'
import { asOsError } from '../program'
import { type FromChild, type Runner, runJob, type StressJob, type ToChild } from './runners'

/** `script`: the file of the program, for threads of a process. */
export function runStressChild(script: string): void {
  const post = (message: FromChild): void => {
    if (parentPort) parentPort.postMessage(message)
    else process.send?.(message)
  }
  const fail = (thrown: unknown): void => {
    const { code, message } = asOsError(thrown)
    post({ error: { code, message } })
  }
  let runner: Runner | undefined
  const begin = (job: StressJob): void => {
    runner = runJob(job, { script, onProgress: done => post({ done }) })
    runner.ready.then(() => post({ ready: true }), fail)
    runner.results.then(results => post({ results }), fail)
  }
  const take = (message: ToChild): void => {
    if ('job' in message) begin(message.job)
    else if ('compare' in message)
      compareCores(BUILT_IN_CORES, message.compare.precision, (done, of) => post({ done, of })).then(
        comparison => post({ comparison }),
        fail,
      )
    else runner?.go()
  }
  if (parentPort) parentPort.on('message', take)
  else process.on('message', take).on('disconnect', () => process.exit(1))
}
