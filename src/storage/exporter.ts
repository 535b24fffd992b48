// `os-node db export`: writes an export in a worker thread, which contains sql.js, under a temporary name until it is
// complete. It only reads the data directory, so it runs in parallel with a gateway or without one.
//
// Errors: an existing FILE (without `force`), or one that is no regular file, is USAGE. A full disk is DISK_FULL, any other
// refusal of the system STORAGE, a cancel TIMEOUT. In each case the temporary files are removed, and an existing FILE stays.
import { lstatSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { Worker } from 'node:worker_threads'
import { OsError } from '../lib/errors'
import { realFiles } from '../lib/files'
import type { ExportResult } from './export'
import type { ExportSetup, FromExport } from './messages'
import { cannotWrite } from './output-file'
import { workerProgram } from './program'
import { YOUNG_MB } from './sqlthread'
import { windowFolder } from './window-folder-options'

export interface ExportOptions {
  readonly file: string
  /** replaces an existing file */
  readonly force: boolean
  /** values in display units; default: canonical */
  readonly display?: boolean
  readonly dataDir: string
  /** storage.sql.driver.path */
  readonly path: string
  readonly signal?: AbortSignal
  /** packets so far, and the approximate total */
  readonly report?: (done: number, of: number) => void
}

/** Returns the file's absolute path, and a summary of its content. */
export async function exportDatabase(options: ExportOptions): Promise<{ file: string } & ExportResult> {
  const { force, display = false, dataDir, path, signal, report } = options
  const file = resolve(options.file)
  mayReplace(file, force)
  const part = `${file}.${process.pid}.part`
  const { script, wasm } = workerProgram()
  const windows = windowFolder(path, dataDir)
  const setup: ExportSetup = {
    wasm,
    exports: { part, csv: /\.csv$/i.test(file), display, dataDir, ...(windows !== undefined && { windows }) },
  }
  const worker = new Worker(script, {
    eval: true,
    workerData: setup,
    resourceLimits: { maxYoungGenerationSizeMb: YOUNG_MB },
  })
  try {
    const result = await answerOf(worker, signal, report).catch(error => {
      // the caller only knows the final name of the file
      error.message = error.message.replace(`${part}.keys`, file).replace(part, file)
      throw error
    })
    mayReplace(file, force)
    try {
      realFiles.rename(part, file)
      realFiles.syncDir(dirname(file))
    } catch (error) {
      throw cannotWrite(file, error)
    }
    return { file, ...result }
  } finally {
    await worker.terminate()
    for (const left of [part, `${part}.keys`]) realFiles.remove(left)
  }
}

/** Throws USAGE. */
function mayReplace(file: string, force: boolean): void {
  const there = lstatSync(file, { throwIfNoEntry: false })
  if (!there) return
  if (!there.isFile()) throw new OsError('USAGE', `${file} is not a file`, { hint: 'name a new file' })
  if (!force)
    throw new OsError('USAGE', `${file} already exists`, { hint: 'name another file, or replace it with --force' })
}

function answerOf(worker: Worker, signal?: AbortSignal, report?: ExportOptions['report']): Promise<ExportResult> {
  return new Promise((done, failed) => {
    const stop = (): void => failed(new OsError('TIMEOUT', 'stopped'))
    if (signal?.aborted) stop()
    signal?.addEventListener('abort', stop)
    worker.on('error', error => failed(new OsError('STORAGE', `the export failed: ${error.message}`, { cause: error })))
    worker.on('exit', code => failed(new OsError('STORAGE', `the export ended with code ${code}`)))
    worker.on('message', (message: FromExport) => {
      if ('done' in message) report?.(message.done, message.of)
      else if ('result' in message) done(message.result)
      else {
        const { code, message: text, hint } = message.failed
        failed(new OsError(code, text, { hint }))
      }
    })
  })
}
