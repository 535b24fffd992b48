// Opening a log of 1 GiB after a kill (docs/operation.md): a process writes it and is killed with SIGKILL while it writes, and a fresh process opens it,
// with nothing of it in the page cache. It writes 1 GiB and takes minutes, so it runs only when it is named (`--only opening/`).
import { fork, spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const self = fileURLToPath(import.meta.url)
const GIB = 2 ** 30
const MAX_BYTES = 1100 * 2 ** 20
/** records between two commits; all of them fit into the log's buffer in RAM */
const BATCH = 5000

/** `put(key, value)` records the figure. */
export async function benchOpening({ put, problems }) {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-bench-opening-'))
  try {
    const written = await outcome(fork(self, ['write', dir]))
    // pages that were not written yet would stay in the cache
    spawnSync('sync', ['-f', dir])
    for (const file of readdirSync(dir)) {
      const { status } = spawnSync('dd', [`if=${join(dir, file)}`, 'iflag=nocache', 'count=0'], { stdio: 'ignore' })
      if (status !== 0) problems.push(`opening: ${file} stays in the page cache (dd iflag=nocache)`)
    }
    const opened = await outcome(fork(self, ['open', dir]))
    // the killed process may have committed more than it reported
    if (opened.committed < written.committed)
      problems.push(`opening: ${opened.committed} is the last record, ${written.committed} was committed`)
    put('opening/1gib_ms', opened.ms)
    console.log(`opening/1gib_ms: a log of ${written.records} records in ${opened.segments} segments`)
  } finally {
    rmSync(dir, { recursive: true, force: true })
  }
}

/** The message of a process, which is killed then. */
function outcome(child) {
  return new Promise((resolve, reject) => {
    let message
    child.on('message', value => {
      message = value
      child.kill('SIGKILL')
    })
    child.on('exit', code => (message ? resolve(message) : reject(new Error(`opening: a process ended with ${code}`))))
  })
}

const sizeOf = dir => readdirSync(dir).reduce((sum, file) => sum + statSync(join(dir, file)).size, 0)

async function write(FlashLog, dir) {
  const log = await FlashLog.open({ dir, maxBytes: MAX_BYTES })
  const sensors = [0, 1, 2, 3].map(i => ({ id: `s${i}`, status: 'OK', unit: 'K', value: 280 + i }))
  let told = false
  for (let records = 0; ; ) {
    for (const end = records + BATCH; records < end; records++) {
      sensors[records & 3].value = 280 + (records % 997) / 10
      const fact = { id: 'GW', state: 'ONLINE', tRaw: 1_710_000_000_000 + records, aid: 4711, sensors }
      log.appendFact(fact, { medium: 'local' }, 'synced')
    }
    await log.flush()
    if (told || sizeOf(dir) < GIB) continue
    // goes on writing until it is killed
    told = true
    process.send({ records, committed: log.committedSeq })
  }
}

async function open(FlashLog, dir) {
  const began = performance.now()
  const log = await FlashLog.open({ dir, maxBytes: MAX_BYTES })
  const ms = Math.round(performance.now() - began)
  process.send({
    ms,
    committed: log.committedSeq,
    segments: readdirSync(dir).filter(file => file.endsWith('.seg')).length,
  })
}

if (process.argv[1] === self) {
  const { FlashLog } = createRequire(self)('../dist/os-node.js')
  const [, , verb, dir] = process.argv
  await (verb === 'write' ? write : open)(FlashLog, dir)
}
