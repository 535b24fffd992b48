// A FIFO without a writer. Who opens it without O_NONBLOCK waits, and the whole process with it where the call is a
// synchronous one; a writer comes after a while then, so that the test fails and does not hang.
import { execFileSync, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'

export interface Fifo {
  /** whether a reader has waited so long that the writer came */
  waitedFor(): boolean
  end(): void
}

export function makeFifo(path: string): Fifo {
  execFileSync('mkfifo', [path])
  const mark = `${path}.waited-for`
  const writer = spawn('sh', ['-c', 'sleep 20; : > "$1"; : > "$0"', path, mark], { stdio: 'ignore' })
  return { waitedFor: () => existsSync(mark), end: () => void writer.kill('SIGKILL') }
}
