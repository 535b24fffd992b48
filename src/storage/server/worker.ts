// The worker of a database server: dist/os-node-sql.js, a separate program next to the bundle that contains both libraries,
// read only if storage.sql.dialect names a server. It gets batches and queries like the worker of the sqlite view. It ends at
// the first failure of the server, with the reason; the main thread starts a new one after a backoff, which continues at the
// server's seq. Queries use a separate connection, so that a long one does not delay the facts.
import { parentPort, workerData } from 'node:worker_threads'
import { OsError } from '../../lib/errors'
import { SerialQueue } from '../../lib/serial-queue'
import { recordsOf } from '../batch'
import { threadBytes } from '../garbage-collection'
import type { FromWorker, IdQuestion, Question, ToWorker, WorkerState } from '../messages'
import { Answers } from './answers'
import { type Dialect, type ServerConnection, serverError } from './connection'
import { allocate } from './ids'
import { mysql } from './mysql'
import { postgresql } from './postgres'
import type { ServerSetup } from './setup'
import { ServerStore, withStatementLimit } from './store'

const DIALECTS: readonly Dialect[] = [postgresql, mysql]

async function runServerWorker(): Promise<void> {
  const port = parentPort!
  const setup = workerData as ServerSetup
  const say = (message: FromWorker, transfer: ArrayBuffer[] = []): void => port.postMessage(message, transfer)
  const end = (thrown: unknown): never => {
    const { code, message } = serverError(thrown)
    say({ type: 'down', code, message })
    process.exit()
  }
  if (setup.version !== __VERSION__)
    return end(
      new OsError(
        'E_SQL_VERSION',
        `os-node-sql.js belongs to os-node ${__VERSION__}, this is os-node ${setup.version}`,
      ),
    )
  const dialect = DIALECTS.find(({ name }) => name === setup.dialect)!
  const store = await ServerStore.open(dialect, setup, end).catch(end)
  const state = (): WorkerState => ({ counts: { ...store.counts }, heap: threadBytes(), hole: false })
  const query = questions(dialect, setup)
  // ids use a separate connection, because a device waits for its id
  const ids = questions(dialect, setup)
  const ask = (question: Question | IdQuestion) => (question.name === 'ids' ? ids : query)(question)

  let work: Promise<void> = Promise.resolve()
  port.on('message', (message: ToWorker) => {
    if (message.type === 'batch') {
      const { bytes, length, upTo } = message
      work = work
        .then(() => store.apply(recordsOf(Buffer.from(bytes, 0, length)), upTo))
        .then(() => say({ type: 'applied', upTo, bytes, ...state() }, [bytes]))
        .catch(end)
    } else if (message.type === 'question') {
      const { id, question } = message
      ask(question).then(
        answer => say({ type: 'answer', id, answer, ...state() }),
        thrown => {
          const { code, message: text } = serverError(thrown)
          say({ type: 'failed', id, code, message: text, ...state() })
        },
      )
    }
  })
  say({ type: 'ready', windows: [], ...(store.seq !== undefined && { seq: store.seq }), ...state() })
}

/** Answers queries one after another, over a connection that is opened when needed. */
function questions(dialect: Dialect, setup: ServerSetup): (question: Question | IdQuestion) => Promise<unknown> {
  const turns = new SerialQueue()
  let on: ServerConnection | undefined
  const one = async (question: Question | IdQuestion): Promise<unknown> => {
    if (!on || on.lost) on = await dialect.connect(setup)
    const connection = on
    return withStatementLimit(connection, setup, () =>
      question.name === 'ids' ? allocate(connection, question.work) : new Answers(connection, dialect).to(question),
    )
  }
  return question => turns.run(() => one(question))
}

// `deps check` only loads it
if (parentPort) void runServerWorker()
