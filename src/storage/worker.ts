// The SQL worker: a separate program, packed into the bundle, so that its thread only contains SQLite and the rows. With
// `exports` it writes one export and reports its result. Otherwise it keeps the view and answers one message at a time. A
// batch that cannot be stored ends the thread; the main thread starts a new one and sends the log again, so nothing here
// needs to be saved.

import { join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { parentPort, workerData } from 'node:worker_threads'
import { asOsError } from '../lib/errors'
import { realFiles } from '../lib/files'
import { LogFiles } from '../log'
import { recordsOf } from './batch'
import { writeCsv, writeExport } from './export'
import { WindowFolder } from './folder'
import { threadBytes, tidied } from './garbage-collection'
import type {
  ExportSetup,
  FromExport,
  FromWorker,
  Question,
  ToWorker,
  WindowNote,
  WorkerSetup,
  WorkerState,
} from './messages'
import type { OpenDatabase } from './sealed'
import { loadSqlite } from './sqlite'
import { SqlView } from './view'

async function runSqlWorker(): Promise<void> {
  const port = parentPort!
  const setup = workerData as WorkerSetup | ExportSetup
  const Sqlite = await loadSqlite(setup.wasm)
  if ('exports' in setup) {
    port.postMessage(
      exported(
        setup,
        bytes => new Sqlite(bytes),
        (done, of) => {
          heap() // the written data is garbage
          port.postMessage({ done, of })
        },
      ),
    )
    return
  }
  const { wasm: _, windows, ...limits } = setup
  const folder = windows && new WindowFolder({ ...windows, files: realFiles })
  const sealed = folder && {
    folder,
    open: (bytes?: Uint8Array, room?: number) => new Sqlite(bytes, room),
    readOnly: windows.readOnly,
  }
  const view = new SqlView(new Sqlite(), limits, sealed)
  const say = (message: FromWorker, transfer: ArrayBuffer[] = []): void => port.postMessage(message, transfer)
  let sent = ''
  const state = (): WorkerState => {
    const { upTo, bytes, files } = view.counts.sealed ?? {}
    const now = `${upTo} ${bytes} ${files}`
    const changed = now !== sent
    sent = now
    return { counts: view.counts, heap: heap(), hole: view.hole, ...(changed && { windows: notes() }) }
  }
  const notes = (): WindowNote[] =>
    folder?.sealed.map(({ name, summary: { from, to, witness, packets, duplicates } }) => ({
      ...{ name, from, to, witness, packets, duplicates },
    })) ?? []

  port.on('message', (message: ToWorker) => {
    if (message.type === 'begin') {
      view.begin(message.from, message.foreign)
      return
    }
    if (message.type === 'seal') {
      view.seal(message.upTo)
      say({ type: 'applied', upTo: message.upTo, ...state() })
      return
    }
    if (message.type === 'batch') {
      view.apply(recordsOf(Buffer.from(message.bytes, 0, message.length)))
      view.retain(message.logFirst, Date.now())
      say({ type: 'applied', upTo: message.upTo, bytes: message.bytes, ...state() }, [message.bytes])
      return
    }
    try {
      say({ type: 'answer', id: message.id, answer: answer(view, message.question as Question), ...state() })
    } catch (thrown) {
      const error = asOsError(thrown, 'DB_UNAVAILABLE')
      say({ type: 'failed', id: message.id, code: error.code, message: error.message, ...state() })
    }
  })
  say({ type: 'ready', ...state(), windows: notes() })
}

function exported(
  { exports: { part, csv, display, dataDir, windows } }: ExportSetup,
  open: OpenDatabase,
  report: (done: number, of: number) => void,
): FromExport {
  try {
    const log = new LogFiles(join(dataDir, 'log'), realFiles)
    return { result: (csv ? writeCsv : writeExport)({ log, windows, files: realFiles, open, display }, part, report) }
  } catch (thrown) {
    const { code, message, hint } = asOsError(thrown, 'STORAGE')
    return { failed: { code, message, hint } }
  }
}

setFlagsFromString('--expose-gc')
setFlagsFromString('--wasm-lazy-compilation')
const heap = tidied(threadBytes, runInNewContext('gc') as () => void)

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
    case 'history':
      return view.history(question.query)
  }
}

void runSqlWorker()
