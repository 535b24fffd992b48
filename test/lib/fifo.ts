// A FIFO without a writer. Opening it without O_NONBLOCK blocks, and a synchronous call blocks the whole process; after a
// while a writer opens it, so that the test fails instead of hanging.
import { execFileSync, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'

export interface Fifo {
  /** true if a reader waited so long that the writer opened it */
  waitedFor(): boolean
  end(): void
}

export function makeFifo(path: string): Fifo {
  execFileSync('mkfifo', [path])
  const mark = `${path}.waited-for`
  const writer = spawn('sh', ['-c', 'sleep 20; : > "$1"; : > "$0"', path, mark], { stdio: 'ignore' })
  return { waitedFor: () => existsSync(mark), end: () => void writer.kill('SIGKILL') }
}
