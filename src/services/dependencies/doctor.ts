// Loads each part once, in a separate process, so that a file that crashes its process is detected without crashing this one.
// Reports the error code and its meaning. Never throws.

import { adviceFor, LOAD_REMEDIES } from '../../checks/remedies'
import type { CheckedPart } from './manifest-parts'
import { run } from './program'

interface Diagnosis {
  readonly name: string
  readonly file: string
  readonly ok: boolean
  /** ENOENT, EACCES, ERR_DLOPEN_FAILED …; null if it loads, or if this Node version cannot load it, which `hint` then says */
  readonly errno: string | null
  readonly error?: string
  readonly hint?: string
}

const TIMEOUT_MS = 20_000

/** program of the child process; argv: kind, path */
const CHILD = `
const [kind, path] = process.argv.slice(1)
try {
  if (kind === 'bundle') new (require('node:vm').Script)(require('node:fs').readFileSync(path, 'utf8').replace(/^#!.*/, ''))
  else {
    require('node:fs').accessSync(path, 4)
    process.dlopen({ exports: {} }, path)
  }
  process.stdout.write(JSON.stringify({ ok: true }))
} catch (error) {
  process.stdout.write(JSON.stringify({ ok: false, errno: error.code ?? error.name, error: error.message }))
}
process.exit()
`

export async function diagnose(
  part: Pick<CheckedPart, 'name' | 'kind' | 'file' | 'path'>,
  signal?: AbortSignal,
): Promise<Diagnosis> {
  const { name, file, kind, path } = part
  const ran = await run(process.execPath, ['-e', CHILD, kind, path], { timeoutMs: TIMEOUT_MS, signal })
  let reported: { ok?: boolean; errno?: string; error?: string } = {}
  try {
    reported = JSON.parse(ran.stdout) as typeof reported
  } catch {
    // it ended without output
  }
  if (reported.ok) return { name, file, ok: true, errno: null }
  // the only part that not every Node version can load, and that only its medium needs
  if (reported.error?.includes('SSL_set_quic'))
    return { name, file, ok: true, errno: null, hint: 'QUIC needs Node 22 or 24' }
  const errno = reported.errno ?? ran.errno ?? `exit ${ran.code}`
  const error = reported.error ?? 'the process that loaded it ended without output'
  const failure = reported.error ? `${errno} ${error}` : `signal ${errno}`
  return { name, file, ok: false, errno, error, hint: adviceFor(LOAD_REMEDIES, 'package', failure) }
}
