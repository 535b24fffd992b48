// Runs other programs without a shell: arguments are words that are never parsed again. If a program is missing, times out or
// is stopped, the outcome says so. Never throws.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

interface Ran {
  /** null: it did not run to completion */
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
  /** why it did not run: ENOENT, ETIMEDOUT, ABORT_ERR … */
  readonly errno?: string
}

interface RunOptions {
  readonly timeoutMs: number
  readonly signal?: AbortSignal
  readonly cwd?: string
}

export async function run(program: string, args: readonly string[], options: RunOptions): Promise<Ran> {
  const { timeoutMs: timeout, signal, cwd } = options
  const fixed = { killSignal: 'SIGKILL', maxBuffer: 1 << 20, encoding: 'utf8', shell: false } as const
  try {
    return { code: 0, ...(await promisify(execFile)(program, [...args], { ...fixed, timeout, signal, cwd })) }
  } catch (error) {
    const { code, killed, stdout = '', stderr = '' } = error as { code?: unknown; killed?: boolean } & Partial<Ran>
    if (typeof code === 'number') return { code, stdout, stderr }
    return { code: null, stdout, stderr, errno: typeof code === 'string' ? code : killed ? 'ETIMEDOUT' : 'SIGNAL' }
  }
}
