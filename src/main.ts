// The program: the library when required, the SQL worker in its thread, the CLI otherwise. The only file beside index.ts
// that names concrete rooms: it hands each room what it needs of the others.
import { readFileSync } from 'node:fs'
import { isMainThread, workerData } from 'node:worker_threads'
import { hostCli } from './host'

export * from './index'

if (!isMainThread) {
  if (workerData?.role === 'sql') void import('./storage/worker').then(worker => worker.runSqlWorker())
} else if (require.main === module) void hostCli()
