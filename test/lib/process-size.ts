// Whether the size of a process is stable: memory and file descriptors, sampled from outside; the heap after a full
// collection is reported by a few lines loaded into the process. Machine code is excluded: the compiler creates and drops it
// over minutes.
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const HOOK = `const { isMainThread } = require('node:worker_threads')
if (isMainThread && /os-node\\.js$/.test(process.argv[1] ?? '')) {
  const fs = require('node:fs')
  const v8 = require('node:v8')
  v8.setFlagsFromString('--expose-gc')
  const gc = require('node:vm').runInNewContext('gc')
  const file = process.env.PROCESS_SIZE_DIR + '/' + process.pid
  setInterval(() => {
    gc()
    const { heapUsed, external } = process.memoryUsage()
    const code = v8.getHeapCodeStatistics()
    const data = heapUsed - code.code_and_metadata_size - code.bytecode_and_metadata_size
    fs.writeFileSync(file + '.new', data + ' ' + external)
    fs.renameSync(file + '.new', file)
  }, 5000).unref()
}
`

export interface Sample {
  /** seconds since the first one */
  at: number
  rssMb: number
  /** data, without machine code */
  heapMb: number
  externalMb: number
  fds: number
  threads: number
  /** seconds of processor time so far */
  cpu: number
}

const MB = 1048576

export class ProcessSize {
  readonly #dir: string
  readonly #series = new Map<string, Sample[]>()
  #began: number | undefined

  constructor(dir: string) {
    this.#dir = join(dir, 'sizes')
    mkdirSync(this.#dir, { recursive: true })
    writeFileSync(join(this.#dir, 'hook.cjs'), HOOK)
  }

  /** Programs started inside `start` report their heap. */
  async within(start: () => Promise<void>): Promise<void> {
    const { NODE_OPTIONS } = process.env
    process.env.NODE_OPTIONS = `${NODE_OPTIONS ?? ''} --require ${join(this.#dir, 'hook.cjs')}`
    process.env.PROCESS_SIZE_DIR = this.#dir
    try {
      await start()
    } finally {
      delete process.env.PROCESS_SIZE_DIR
      if (NODE_OPTIONS === undefined) delete process.env.NODE_OPTIONS
      else process.env.NODE_OPTIONS = NODE_OPTIONS
    }
  }

  sample(name: string, pid: number): void {
    this.#began ??= performance.now()
    const status = readFileSync(`/proc/${pid}/status`, 'utf8')
    const number = (key: string): number => Number(new RegExp(`${key}:\\s+(\\d+)`).exec(status)?.[1])
    const [, times] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')
    const [user, system] = times!.split(' ').slice(11, 13).map(Number)
    const file = join(this.#dir, String(pid))
    const [heap, external] = existsSync(file) ? readFileSync(file, 'utf8').split(' ').map(Number) : [0, 0]
    const samples = this.#series.get(name) ?? []
    this.#series.set(name, samples)
    samples.push({
      at: (performance.now() - this.#began) / 1000,
      rssMb: number('VmRSS') / 1024,
      heapMb: heap! / MB,
      externalMb: external! / MB,
      fds: readdirSync(`/proc/${pid}/fd`).length,
      threads: number('Threads'),
      cpu: (user! + system!) / 100,
    })
  }

  /** Samples from `from` seconds on. */
  of(name: string, from = 0): Sample[] {
    return (this.#series.get(name) ?? []).filter(({ at }) => at >= from)
  }
}

/** The growth over the time of the samples, from a linear fit. */
export function growth(samples: readonly Sample[], of: (sample: Sample) => number): number {
  const mean = (values: number[]): number => values.reduce((a, b) => a + b, 0) / values.length
  const at = mean(samples.map(s => s.at))
  const value = mean(samples.map(of))
  let [above, below] = [0, 0]
  for (const s of samples) {
    above += (s.at - at) * (of(s) - value)
    below += (s.at - at) ** 2
  }
  return (above / below) * (samples.at(-1)!.at - samples[0]!.at)
}
