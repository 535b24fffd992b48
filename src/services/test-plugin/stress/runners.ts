// Runs shares: in this thread, in worker threads, in child processes. Each kind reports when it is ready, starts on command
// (so that all start simultaneously) and returns its results; if a thread or process dies, its shares fail with that error.
//
// Threads and processes run the program's own file; main passes them to stress/child.ts.

import { type ChildProcess, fork } from 'node:child_process'
import { Worker } from 'node:worker_threads'
import type { CompareProgress, Comparison } from '../compare'
import type { CoreTable } from '../cores'
import { OsError } from '../program'
import { ROLE_VARIABLE, STRESS_ROLE } from '../role'
import { prepareShare, type Share, type ShareResult } from './share'

export interface StressJob {
  readonly shares: readonly Share[]
  /** worker threads, one per share; false: the shares alternate in the main thread of the process */
  readonly threads: boolean
}

/** Messages between parent and child. */
export type ToChild =
  | { readonly job: StressJob }
  | { readonly go: true }
  | { readonly compare: { readonly precision: number } }
export type FromChild =
  | { readonly ready: true }
  | { readonly done: number; readonly of?: number }
  | { readonly results: ShareResult[] }
  | { readonly comparison: Comparison }
  | { readonly error: { readonly code: string; readonly message: string } }

export interface Runner {
  /** Settles when everything is prepared; rejects if that fails. */
  readonly ready: Promise<void>
  go(): void
  readonly results: Promise<ShareResult[]>
  /** Stops it in any state. */
  stop(): void
}

interface RunnerOptions {
  /** the file of the program */
  readonly script: string
  readonly cores?: CoreTable
  readonly onProgress: (done: number) => void
}

/** Runs a share in this thread. */
function runHere(share: Share, { cores, onProgress }: RunnerOptions): Runner {
  const stopping = new AbortController()
  const prepared = prepareShare(share, { ...(cores && { cores }), signal: stopping.signal, onProgress })
  let go: () => void = () => undefined
  const started = new Promise<void>(resolve => {
    go = resolve
  })
  const results = Promise.all([prepared, started]).then(async ([run]) => [await run()])
  results.catch(() => undefined) // reported by `ready`, and to the caller of the results
  return { ready: prepared.then(() => undefined), go: () => go(), results, stop: () => stopping.abort() }
}

/** A peer that sends and receives messages. */
interface Peer {
  post(message: ToChild): void
  onMessage(listener: (message: FromChild) => void): void
  /** called with the reason when it has ended */
  onEnd(listener: (reason: string) => void): void
  kill(): void
}

function runOn(peer: Peer, job: StressJob, onProgress: (done: number) => void): Runner {
  let isReady: () => void = () => undefined
  let isOver: (results: ShareResult[]) => void = () => undefined
  let failed: (error: OsError) => void = () => undefined
  const ready = new Promise<void>((resolve, reject) => {
    isReady = resolve
    failed = reject
  })
  const results = new Promise<ShareResult[]>((resolve, reject) => {
    const refuse = failed
    isOver = resolve
    failed = error => {
      refuse(error)
      reject(error)
    }
  })
  results.catch(() => undefined) // the caller gets the error
  peer.onMessage(message => {
    if ('ready' in message) isReady()
    else if ('done' in message) onProgress(message.done)
    else if ('results' in message) isOver(message.results)
    else if ('error' in message) failed(new OsError(message.error.code as 'INTERNAL', message.error.message))
  })
  peer.onEnd(reason => failed(new OsError('INTERNAL', `a part of the stress run ended: ${reason}`)))
  peer.post({ job })
  return {
    ready,
    go: () => peer.post({ go: true }),
    results: results.finally(() => peer.kill()),
    stop: () => peer.kill(),
  }
}

/** Runs one share in a worker thread. */
const runThread = (share: Share, { script, onProgress }: RunnerOptions): Runner =>
  runOn(threadOf(script), { shares: [share], threads: false }, onProgress)

/**
 * Compares the built-in cores in a worker thread, so that this process keeps working. Rejects with INTERNAL if the thread
 * ends early.
 */
export function compareApart(script: string, precision: number, onProgress: CompareProgress): Promise<Comparison> {
  const peer = threadOf(script)
  return new Promise<Comparison>((resolve, reject) => {
    peer.onMessage(message => {
      if ('comparison' in message) resolve(message.comparison)
      else if ('done' in message) onProgress(message.done, message.of!)
      else if ('error' in message) reject(new OsError(message.error.code as 'INTERNAL', message.error.message))
    })
    peer.onEnd(reason => reject(new OsError('INTERNAL', `the comparison ended: ${reason}`)))
    peer.post({ compare: { precision } })
  }).finally(() => peer.kill())
}

function threadOf(script: string): Peer {
  const worker = new Worker(script, { workerData: { role: STRESS_ROLE }, stdout: false, stderr: false })
  return {
    post: message => worker.postMessage(message),
    onMessage: listener => void worker.on('message', listener),
    onEnd: listener =>
      void worker.on('error', error => listener(error.message)).on('exit', code => listener(`thread, code ${code}`)),
    kill: () => void worker.terminate(),
  }
}

/** Runs shares in a separate process. */
export function runProcess(job: StressJob, { script, onProgress }: RunnerOptions): Runner {
  const child: ChildProcess = fork(script, [], {
    env: { ...process.env, [ROLE_VARIABLE]: STRESS_ROLE },
    execArgv: [],
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    serialization: 'advanced',
  })
  const peer: Peer = {
    // the end of a child is reported by onEnd
    post: message => void child.send(message, () => undefined),
    onMessage: listener => void child.on('message', listener),
    onEnd: listener =>
      void child
        .on('error', error => listener(error.message))
        .on('exit', (code, signal) => listener(`process, ${signal ?? `code ${code}`}`)),
    kill: () => void child.kill('SIGKILL'),
  }
  return runOn(peer, job, onProgress)
}

/** Combines several runners. */
export function together(
  make: readonly ((onProgress: (done: number) => void) => Runner)[],
  onProgress: (done: number) => void,
): Runner {
  const done = make.map(() => 0)
  const runners = make.map((one, k) =>
    one(n => {
      done[k] = n
      onProgress(done.reduce((sum, part) => sum + part, 0))
    }),
  )
  const stop = (): void => {
    for (const runner of runners) runner.stop()
  }
  const results = Promise.all(runners.map(runner => runner.results)).then(lists => lists.flat())
  results.catch(stop)
  return {
    ready: Promise.all(runners.map(runner => runner.ready)).then(() => undefined),
    go: () => {
      for (const runner of runners) runner.go()
    },
    results,
    stop,
  }
}

/** Runs a job in this process. */
export const runJob = ({ shares, threads }: StressJob, options: RunnerOptions): Runner =>
  together(
    shares.map(share => onProgress => (threads ? runThread : runHere)(share, { ...options, onProgress })),
    options.onProgress,
  )
