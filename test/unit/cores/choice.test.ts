// The gateway's choice of its core: a clear win is needed, it is remembered for this processor and build, and without WebAssembly the pure core
// continues with one warning.
import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { GatewayCores, lastChoice } from '../../../src/cores'
import { type Measured, measureCores } from '../../../src/cores/measure'
import { realFiles } from '../../../src/lib/files'
import { createLogger, silentLogger } from '../../../src/lib/logger'
import { PacketSlab } from '../../../src/pipeline/slab'
import { ManualClock } from '../../lib/manual'

const FAST: Measured = { uplinks: { pycore: 100, rscore: 90 }, receivers: { pycore: 100, rscore: 91 } }
const CHOSEN = { uplinks: 'rscore', receivers: 'pycore', measured: FAST }

function folder(t: TestContext): string {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-cores-'))
  t.after(() => rmSync(dir, { recursive: true, force: true }))
  return dir
}

/** What a gateway chooses where that is measured, and how often it measured. */
function choose(dir: string, build: string, result: Measured | null = FAST) {
  let count = 0
  const cores = new GatewayCores(silentLogger)
  assert.deepEqual(cores.report, { uplinks: 'pycore', receivers: 'pycore' })
  const measure = (): Measured | null => {
    count++
    return result
  }
  cores.choose(dir, build, { measure })
  return { report: cores.report, count }
}

test('a core that is faster by a tenth is chosen, and remembered for this build and processor', t => {
  const dir = folder(t)
  assert.equal(lastChoice(dir), null)
  assert.deepEqual(choose(dir, '1'), { report: CHOSEN, count: 1 })
  assert.deepEqual(choose(dir, '1', null), { report: CHOSEN, count: 0 })
  assert.deepEqual(lastChoice(dir), CHOSEN)
  const slow: Measured = { ...FAST, uplinks: { pycore: 100, rscore: 91 } }
  assert.equal(choose(dir, '2', slow).report.uplinks, 'pycore')
  assert.equal(choose(dir, '2').count, 0)
})

test('what cannot be read, or holds no figures, is measured again; a disk that refuses costs only that', t => {
  const dir = folder(t)
  choose(dir, '1')
  const path = join(dir, 'cores.json')
  const { key } = JSON.parse(readFileSync(path, 'utf8')) as { key: string }
  const damaged = { key, measured: { ...FAST, receivers: { pycore: 'x', rscore: 1 } } }
  for (const text of ['', 'null', '{"key":', JSON.stringify({ key }), JSON.stringify(damaged)]) {
    writeFileSync(path, text)
    assert.equal(lastChoice(dir), null, text)
    assert.equal(choose(dir, '1').count, 1, text)
  }
  const lines: string[] = []
  const cores = new GatewayCores(createLogger({ write: line => void lines.push(line) }))
  const refusing = {
    ...realFiles,
    open: () => {
      throw new Error('no space left on device')
    },
  }
  cores.choose(dir, '3', { measure: () => FAST, files: refusing })
  assert.equal(cores.report.uplinks, 'rscore')
  assert.match(lines.join(), /measured again at the next start: no space left/)
})

test('without a result the pure core stays, and it is measured again when links have batches, once a minute, ten times', t => {
  const dir = folder(t)
  const clock = new ManualClock()
  const rounds: (number | undefined)[] = []
  const cores = new GatewayCores(silentLogger)
  let result: Measured | null = null
  const measure = (least?: number): Measured | null => {
    rounds.push(least)
    return result
  }
  cores.choose(dir, '1', { measure, clock })
  const frame = Buffer.from('0001ff0001ff0001ff0001ff', 'hex')
  for (let minute = 0; minute < 30; minute++) {
    assert.equal(cores.stages(() => 3) || cores.sums(frame, 0, 3) !== null, false, 'no batch')
    assert.equal(minute % 2 === 0 ? cores.stages(() => 4) : cores.sums(frame, 0, 4) !== null, false)
    clock.advance(60_000)
  }
  assert.deepEqual(rounds, [undefined, 5, 5, 5, 5, 5, 5, 5, 5, 5])
  assert.deepEqual(cores.report, { uplinks: 'pycore', receivers: 'pycore' })
  assert.equal(existsSync(join(dir, 'cores.json')), false)
  cores.choose(dir, '1', { measure, clock })
  result = FAST
  assert.equal(
    cores.stages(() => 100),
    false,
    'within the minute',
  )
  clock.advance(60_000)
  assert.equal(
    cores.stages(() => 100),
    true,
  )
  assert.deepEqual([cores.report, lastChoice(dir)], [CHOSEN, CHOSEN])
  assert.equal(rounds.length, 12)
})

test('a measurement is bounded by its time and its rounds', () => {
  let [reads, step] = [0, 0]
  const now = (): number => reads++ * step
  // a stopped clock: 300 rounds of four works, each between two readings
  assert.deepEqual(measureCores(undefined, now), {
    uplinks: { pycore: 0, rscore: 0 },
    receivers: { pycore: 0, rscore: 0 },
  })
  assert.equal(reads, 1 + 300 * 4 * 2)
  // each reading takes 1 ms: it ends after 15 of them, with too few rounds for a result
  ;[reads, step] = [0, 1]
  assert.equal(measureCores(undefined, now), null)
  assert.equal(reads, 16)
  ;[reads, step] = [0, 1 / 64]
  assert.equal(measureCores(undefined, now)!.uplinks.pycore, 977)
})

test('packets of a frame are checked together where the native core is chosen for receivers, from four on', () => {
  const frame = Buffer.from('0001ff0001ff0001ff0001ff', 'hex')
  const sums = (core: 'pycore' | 'rscore', n: number): Uint8Array | null =>
    new GatewayCores(silentLogger, { uplinks: 'rscore', receivers: core }).sums(frame, 0, n)
  assert.deepEqual([sums('pycore', 4), sums('rscore', 3), sums('rscore', 4)], [null, null, new Uint8Array(4)])
})

test('without WebAssembly the pure core continues, with one warning that status shows', t => {
  const dir = folder(t)
  choose(dir, '1', { ...FAST, receivers: { pycore: 2, rscore: 1 } })
  const kept = Object.getOwnPropertyDescriptor(globalThis, 'WebAssembly')!
  const lines: string[] = []
  const logger = () => createLogger({ write: line => void lines.push(line) })
  const problem = 'rscore is not available: this Node runs without WebAssembly'
  Reflect.deleteProperty(globalThis, 'WebAssembly')
  try {
    assert.equal(measureCores(), null)
    const cores = new GatewayCores(logger())
    cores.choose(dir, '1')
    assert.deepEqual(cores.report, { uplinks: 'pycore', receivers: 'pycore', problem })
    assert.equal(cores.sums(new Uint8Array(64), 0, 8), null)
    assert.equal(lines.length, 1)
    // chosen before it went away
    const late = new GatewayCores(logger(), { uplinks: 'rscore', receivers: 'rscore' })
    assert.equal(late.batch(new PacketSlab()), null)
    assert.deepEqual(late.report, { uplinks: 'pycore', receivers: 'pycore', problem })
    assert.equal(lines.length, 2)
    // and where nothing is remembered
    const other = new GatewayCores(logger())
    other.choose(folder(t), '1')
    assert.equal(other.report.problem, problem)
    assert.equal(lines.length, 3)
    assert.match(lines[2]!, /pycore makes and checks the packets/)
  } finally {
    Object.defineProperty(globalThis, 'WebAssembly', kept)
  }
})
