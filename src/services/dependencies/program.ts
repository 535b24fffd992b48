// Runs other programs without a shell: arguments are words that are never parsed again. If a program is missing, times out or
// is stopped, the outcome says so. Never throws.
import { execFile } from 'node:child_process'

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

export const run = (program: string, args: readonly string[], { timeoutMs, signal, cwd }: RunOptions): Promise<Ran> =>
  new Promise(resolve => {
    const options = { timeout: timeoutMs, killSignal: 'SIGKILL', maxBuffer: 1 << 20, encoding: 'utf8' } as const
    execFile(
      program,
      [...args],
      { ...options, shell: false, ...(signal && { signal }), ...(cwd && { cwd }) },
      (error, stdout, stderr) => {
        if (!error) return resolve({ code: 0, stdout, stderr })
        const { code, killed } = error as { code?: unknown; killed?: boolean }
        if (typeof code === 'number') return resolve({ code, stdout, stderr })
        resolve({
          code: null,
          stdout,
          stderr,
          errno: typeof code === 'string' ? code : killed ? 'ETIMEDOUT' : 'SIGNAL',
        })
      },
    )
  })
