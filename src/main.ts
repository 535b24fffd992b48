import { isMainThread, workerData } from 'node:worker_threads'

export * from './index'

if (!isMainThread && workerData?.role === 'sql') void import('./storage/worker').then(worker => worker.runSqlWorker())
