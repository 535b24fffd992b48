// The power of the emulated board is cut at random moments: while readings are logged, packets received, queries answered and an update is written or
// tried, and while it starts after such a cut. Every start succeeds, with everything that was acknowledged or reported as committed (R26), and a program
// that never syncs is caught where there are five cuts or more. `npm run test:image` cuts 40 times under load, on two boards at a time, and about 12 times in the starts after them;
// each second cut under load is beside an update, the first of these on one board at its writing, on the other at its trial. The cuts of a first start
// are in first-start.long.test.ts.
// Needs: x64 boards debs image sshd
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, describe, type TestContext, test } from 'node:test'
import { orElse } from '../../src/lib/errors'
import { BOOT_MS, Board, PLACES, until } from './board'
import { Cutter, LOADED, WRITES, whole } from './cutter'
import { Load } from './load'
import { startUpstream } from './upstream'

/** the share of cuts under load that are followed by one during the next start */
const STARTS = 0.3
/** each board has one cut in that phase of an update; with fewer cuts there may be none beside an update */
const AIMS = whole && LOADED >= 10 ? (['writing', 'trial'] as const) : [undefined]
/** the actions of a board that does not answer */
const STATE = 'os-node status; ps -eLo pid,tid,stat,time,wchan:20,comm | grep -v " I" | tail -n 60'

interface UpdateState {
  slots: { version: string | null; running: boolean; state: string }[]
  last_update?: { version: string; outcome: string; reason?: string }
}

const boards: Board[] = []
after(() => Promise.all(boards.map(board => board.remove())))

describe('cuts under load lose nothing acknowledged or committed, and an update ends in the old slot or the new one', {
  concurrency: true,
}, () => {
  for (const [nth, aim] of AIMS.entries()) test(`one is at the ${aim ?? 'load'}`, t => cutsOf(t, nth, aim))
})

async function cutsOf(t: TestContext, nth: number, aim?: 'writing' | 'trial'): Promise<void> {
  const board = new Board()
  boards.push(board)
  const cutter = new Cutter(board, nth)
  const { random, seed } = cutter
  const rounds = whole ? Math.ceil(LOADED / AIMS.length) : 1
  const inStart = (): number => (whole ? Number(random() < STARTS) : LOADED - 1)
  /** seconds until the SQL view answered */
  const views: number[] = []
  /** The slots as the page shows them. */
  const updateState = (): Promise<UpdateState> =>
    until('the slots on the page', async () => {
      const { status, text } = await board.ask('/api/update', { token })
      return status === 200 ? (JSON.parse(text) as UpdateState) : null
    })
  await board.make(`hostname=greenhouse-1\n${await startUpstream(t)}`, '20min')
  await cutter.loseUnflushed()
  await cutter.start()
  const token = await cutter.tokenThatWorks('')
  const sources = ['cpu', 'memory'].map(type => ({ name: type, type, interval_ms: 500 }))
  const config = { gateway: { receivers: [{ name: 'field', medium: 'UDP', port: 8080 }], sources } }
  const answer = await cutter.answered('/api/config', { token, put: config })
  assert.equal(answer.status, 200, answer.text)
  const served = await board.serve([])
  t.after(() => served.server.close())
  const load = new Load(board, token)
  const outcomes: string[] = []
  let patch = 4
  let name = board.update(`1.2.${patch}`)
  let device = ''

  /** What is lost stays lost, so the packets, whose SQL view takes the board half a minute, are only compared at the end. */
  async function check(when: string, atEnd = false): Promise<void> {
    const about = `${when}, seed ${seed}`
    const { text } = await cutter.answered('/api/dashboard', { token })
    const id = /"device_id":\s*"([^"]+)"/.exec(text)?.[1]
    assert.ok(id, `${about}: ${text}`)
    device ||= id
    assert.equal(id, device, about)
    const { committed, lost: before } = load
    await until('the metrics', () => load.readMetrics().then(() => true))
    assert.ok(load.committed >= committed, `${about}: the log ends at ${load.committed}, ${committed} was committed`)
    assert.equal(load.lost, before, `${about}: the log lost records`)
    if (atEnd) await comparePackets(about)
    assert.equal(load.caught.synced, 0, `${about}: a number that was synced is not in the file`)
    const { slots, last_update: last } = await updateState()
    assert.equal(slots.filter(({ running }) => running).length, 1, about)
    const running = slots.find(slot => slot.running)!
    assert.ok([`1.2.${patch - 1}`, `1.2.${patch}`].includes(running.version!), `${about}: ${JSON.stringify(slots)}`)
    if (last?.version === `1.2.${patch}` && last.outcome !== 'trial') outcomes.push(`${last.version} ${last.outcome}`)
    if (last?.version === `1.2.${patch}` && last.outcome === 'confirmed' && running.state === 'active')
      name = board.update(`1.2.${++patch}`)
  }

  async function comparePackets(about: string): Promise<void> {
    const asked = performance.now()
    await until(`what was acknowledged, ${about}`, async () => {
      const missing = await load.missing(1)
      if (missing.length > 0) throw new Error(`missing: ${missing}`)
      return true
    }).catch(async error => {
      const { text } = await board.shell(STATE)
      throw new Error(`${error.message}\n${text}\n${cutter.said().slice(-3000)}`)
    })
    views.push((performance.now() - asked) / 1000)
    await until('the remote shell', () => load.readFiles())
  }

  /** Waits for the end of a trial; `name` is then newer than what runs. */
  async function settled(): Promise<void> {
    const { slots } = await until('the end of the trial', async () => {
      const state = await updateState()
      return state.last_update?.outcome === 'trial' ? null : state
    })
    if (slots.some(({ running, version }) => running && version === `1.2.${patch}`))
      name = board.update(`1.2.${++patch}`)
  }

  let inStarts = 0
  for (let round = 1; round <= rounds; round++) {
    await check(`before cut ${round}`)
    const updates = !whole || round % 2 === 0
    const phase = round === 2 ? aim : undefined
    if (phase) await settled()
    load.start()
    const before = [load.acknowledged.size, load.said.unsynced] as const
    const goesOn = (): boolean => load.acknowledged.size > before[0] + 5 && load.said.unsynced > before[1]
    await until('the load', goesOn)
    const stop = (): void => load.stop()
    const update = { token, post: { source: `${served.url}/${name}` } }
    // the load would end with the restart, and the update takes much longer beside it
    if (phase === 'trial') stop()
    if (phase) await cutter.answered('/api/update', update)
    else if (updates) void board.ask('/api/update', update).catch(() => {})
    if (phase) await cutter.cutIn(phase, WRITES[phase], stop)
    else await cutter.cutAmong(updates ? WRITES.update : WRITES.load, stop)
    for (let cuts = inStart(); cuts > 0; cuts--, inStarts++) {
      cutter.on()
      await cutter.cutAmong(WRITES.start)
    }
    await cutter.start()
  }
  await check('at the end', true)
  const about = `${load.acknowledged.size} packets acknowledged, ${load.queries} questions answered`
  t.diagnostic(
    `cuts under load ${rounds}, in starts ${inStarts}; by phase of an update ${JSON.stringify(cutter.phases)}`,
  )
  t.diagnostic(
    `${about}, updates: ${outcomes.join(', ')}; blocks ${JSON.stringify(cutter.lost)}, ${cutter.flushes} flushes`,
  )
  t.diagnostic(
    `lost by a program that never syncs: ${JSON.stringify(load.caught)}; starts ${cutter.starts.map(Math.round).join(' ')} s, views ${views.map(Math.round).join(' ')} s`,
  )
  assert.ok(load.acknowledged.size > 5 * rounds, about)
  assert.ok(!aim || cutter.phases[aim] > 0, `no cut during the ${aim}`)
  // a single cut may come just after the kernel wrote the number by itself
  assert.ok(rounds < 5 || load.caught.unsynced > 0, 'a program that never syncs was not caught')
  // what was cut repeatedly succeeds once it is not cut; test:long tries an update in boot.long.test.ts
  if (!whole || aim === 'trial') return
  await cutter.answered('/api/update', { token, post: { source: `${served.url}/${name}` } })
  const end = await until(
    'the update',
    async () => {
      const { slots, last_update: last } = await updateState()
      return last?.outcome === 'confirmed' && slots.find(({ running }) => running)?.version === `1.2.${patch}`
    },
    2 * BOOT_MS,
  )
  assert.ok(end)
  await check('after the update', true)
  await resetCut(cutter)
}

/** A factory reset that is cut is repeated or was complete, and erases a card that ignores a discard. */
async function resetCut(cutter: Cutter): Promise<void> {
  const { board, random, seed } = cutter
  await cutter.cut()
  const data = (): Buffer => readFileSync(board.card).subarray(PLACES.data)
  const at = data().indexOf('-----BEGIN PRIVATE KEY-----')
  const secret = Buffer.from(data().subarray(at, at + 160))
  assert.ok(at > 0)
  board.write('factory-reset', 'keep\n')
  await cutter.loseUnflushed()
  await cutter.cutAtStartWrite(1 + Math.floor(4 * random()))
  const asked = orElse(false, () => board.read('factory-reset') === 'keep\n')
  assert.ok(asked || !data().includes(secret), `seed ${seed}: the file is gone, and the old key is on the card`)
  await cutter.start()
  assert.ok(!data().includes(secret), `seed ${seed}: the old key is on the card`)
}
