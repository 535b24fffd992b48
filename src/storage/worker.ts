// The SQL worker: the bundle started as a worker thread with `workerData.role === 'sql'`. It holds one in-memory database
// and answers one message at a time. A batch that cannot be stored ends the thread; the main thread starts a new one and
// feeds it from the log again, so nothing here has to be kept.
import { parentPort, workerData } from 'node:worker_threads'
import { brotliDecompressSync } from 'node:zlib'
import initSqlJs from 'sql.js/dist/sql-wasm.js'
import packed from 'sql.js/dist/sql-wasm.wasm'
import { asOsError } from '../lib/errors'
import { decodeRecord, type LogRecord, recordSize } from '../log'
import type { FromWorker, Question, ToWorker, WorkerSetup } from './messages'
import { SqlView } from './view'

export async function runSqlWorker(): Promise<void> {
  const port = parentPort
  if (!port) throw new Error('the SQL worker runs as a worker thread only')
  const setup = workerData as WorkerSetup
  const wasm = brotliDecompressSync(Buffer.from(packed, 'base64'))
  // SQLite's own functions: the ones sql.js adds by default warn on stderr when used
  const options = { wasmBinary: wasm as unknown as ArrayBuffer, useOldExtensionFunctions: false }
  const sql = await initSqlJs(options)
  const view = new SqlView(new sql.Database(), { maxPackets: setup.maxPackets, maxBytes: setup.maxBytes })
  const say = (message: FromWorker, transfer: ArrayBuffer[] = []): void => port.postMessage(message, transfer)

  port.on('message', (message: ToWorker) => {
    if (message.type === 'batch') {
      view.apply(recordsOf(Buffer.from(message.bytes, 0, message.length)))
      say({ type: 'applied', upTo: message.upTo, counts: view.counts, bytes: message.bytes }, [message.bytes])
      return
    }
    try {
      say({ type: 'answer', id: message.id, answer: answer(view, message.question) })
    } catch (thrown) {
      const error = asOsError(thrown, 'DB_UNAVAILABLE')
      say({ type: 'failed', id: message.id, code: error.code, message: error.message })
    }
  })
  say({ type: 'ready' })
}

function* recordsOf(b: Buffer): Iterable<LogRecord> {
  for (let at = 0; at < b.length; at += recordSize(b, at)) yield decodeRecord(b, at)
}

function answer(view: SqlView, question: Question): unknown {
  switch (question.name) {
    case 'devices':
      return view.devices(question.limit, question.offset)
    case 'packets':
      return view.packets(question.query)
    case 'packet':
      return view.packet(question.uuid)
    case 'sensors':
      return view.sensors(question.query)
  }
}
