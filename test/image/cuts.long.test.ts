// The power of the emulated board is cut at random moments: while it starts, while readings are logged, packets received, queries answered and an
// update is written or tried. Its card has a volatile cache that loses a part of the unflushed data and tears blocks (test/lib/volatile-disk.ts).
// Every start succeeds, with everything that was acknowledged or reported as committed (R26), and programs that skip the flush are caught. `npm run
// test:image` cuts 40 times, `npm run test:long` five times, `.ci/run` twice, OS_NODE_CUTS=N another number; OS_NODE_SEED repeats a run's choices.
// Needs: x64 boards debs image sshd
import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { Server } from 'node:http'
import { after, before, test } from 'node:test'
import { orElse } from '../../src/lib/errors'
import { sleep } from '../lib/gateway'
import { prng, QUARTER } from '../lib/random'
import type { Cut, VolatileDisk } from '../lib/volatile-disk'
import { type Answer, BOOT_MS, Board, PLACES, type Power, until } from './board'
import { Load, type Writer } from './load'

const whole = process.env.OS_NODE_IMAGE === 'all'
const CUTS = Number(process.env.OS_NODE_CUTS ?? (whole ? 40 : QUARTER ? 2 : 5))
const FIRST = whole ? Math.ceil(CUTS / 5) : Math.floor(CUTS / 2)
const RUNNING = CUTS - FIRST
/** writes of a first start, of a later one, of ten seconds of load, and of an update until it is confirmed */
const WRITES = { first: 600, start: 60, load: 150, update: 1500 }
/** with fewer writes, the power is cut after this time */
const LATEST_MS = whole ? 90_000 : 60_000
const seed = Number(process.env.OS_NODE_SEED ?? randomInt(2 ** 31))
const random = prng(seed)
const CONF = 'hostname=greenhouse-1\n'
/** a line that was being written may be zeros behind the others: the length of a file may be on the card before what it has there */
const SAVED = `cd /data; for name in synced unsynced; do echo $(tr -d '\\0' <$name | tail -n 1); done; tr '\\0 ' '\\n\\n' <direct | sort -n | tail -n 1`
/** the actions of a board that does not answer */
const STATE = 'os-node status; ps -eLo pid,tid,stat,time,wchan:20,comm | grep -v " I" | tail -n 60'

const board = new Board()
const lost: Cut = { kept: 0, dropped: 0, torn: 0 }
const starts: number[] = []
/** seconds until the SQL view answered */
const views: number[] = []
let power: Power | undefined
let token = ''
let disk: VolatileDisk
let server: Server | undefined
before(() => board.make(CONF, '20min'))
after(async () => {
  server?.close()
  await board.remove()
})

/** Cuts the power at a random one of the next `writes` writes, whatever the speed of this machine; `before` is called first. */
function cutAmong(writes: number, before = (): void => {}): Promise<void> {
  let left = Math.ceil(writes * random())
  return new Promise((resolve, reject) => {
    const now = (): void => {
      clearTimeout(timer)
      disk.onWrite = undefined
      before()
      cut().then(resolve, reject)
    }
    const timer = setTimeout(now, LATEST_MS)
    disk.onWrite = () => {
      if (--left <= 0) now()
    }
  })
}

async function cut(): Promise<void> {
  const now = await power!.cut()
  for (const key of ['kept', 'dropped', 'torn'] as const) lost[key] += now[key]
}

/** Switches the board on and waits until its page answers. */
async function start(): Promise<void> {
  const at = performance.now()
  power = board.power()
  await until(`the page of the board (seed ${seed})`, () => board.health()).catch(error => {
    throw new Error(`${error.message}\n${power!.said().slice(-3000)}`)
  })
  starts.push((performance.now() - at) / 1000)
}

/** An answer of the page, on a machine that may be too busy for the first one. */
const answered = (path: string, options: Parameters<Board['ask']>[1]): Promise<Answer> =>
  until(path, () => board.ask(path, options))

/** The newest token that the console showed in `before` and now, once it opens the page. */
async function tokenThatWorks(earlier: string): Promise<string> {
  for (const end = performance.now() + BOOT_MS; ; await sleep(3000)) {
    const token = [...(earlier + power!.said()).matchAll(/Your token:\s+([\w-]{43})\n/g)].at(-1)?.[1]
    if (token && (await answered('/api/dashboard', { token })).status === 200) return token
    if (performance.now() > end)
      throw new Error(`no token opens the page (seed ${seed})\n${power!.said().slice(-3000)}`)
  }
}

test('a first start that is cut once or twice succeeds later, with a token that opens the page', async t => {
  for (let round = 0; round < FIRST; ) {
    await power?.cut()
    board.insertNewCard(CONF)
    disk = await board.loseUnflushed(random)
    let said = ''
    for (let left = !whole || random() < 0.5 ? 2 : 1; left > 0 && round < FIRST; left--, round++) {
      power = board.power()
      await cutAmong(WRITES.first)
      said += power.said()
    }
    await start()
    token = await tokenThatWorks(said)
  }
  t.diagnostic(`cuts of a first start: blocks ${JSON.stringify(lost)}`)
})

interface UpdateState {
  slots: { version: string | null; running: boolean; state: string }[]
  last_update?: { version: string; outcome: string; reason?: string }
}

/** The slots as the page shows them. */
const updateState = (token: string): Promise<UpdateState> =>
  until('the slots on the page', async () => {
    const { status, text } = await board.ask('/api/update', { token })
    return status === 200 ? (JSON.parse(text) as UpdateState) : null
  })

test('cuts under load lose nothing acknowledged or committed, and an update ends in the old slot or the new one', async t => {
  assert.ok(token, 'a first start came back')
  const sources = ['cpu', 'memory'].map(type => ({ name: type, type, interval_ms: 500 }))
  const config = { gateway: { receivers: [{ name: 'field', medium: 'UDP', port: 8080 }], sources } }
  const answer = await answered('/api/config', { token, put: config })
  assert.equal(answer.status, 200, answer.text)
  const served = await board.serve([])
  server = served.server
  const load = new Load(board, token)
  const caught: Record<Writer, number> = { synced: 0, unsynced: 0, direct: 0 }
  const outcomes: string[] = []
  let patch = 4
  let name = board.update(`1.2.${patch}`)
  let device = ''
  let from = 1

  async function check(when: string): Promise<void> {
    const about = `${when}, seed ${seed}`
    const { text } = await answered('/api/dashboard', { token })
    const id = /"device_id":\s*"([^"]+)"/.exec(text)?.[1]
    assert.ok(id, `${about}: ${text}`)
    device ||= id
    assert.equal(id, device, about)
    const { committed, lost: before } = load
    await until('the metrics', () => load.readMetrics().then(() => true))
    assert.ok(load.committed >= committed, `${about}: the log ends at ${load.committed}, ${committed} was committed`)
    assert.equal(load.lost, before, `${about}: the log lost records`)
    const asked = performance.now()
    await until(`what was acknowledged, ${about}`, async () => {
      const missing = await load.missing(from)
      if (missing.length > 0) throw new Error(`missing: ${missing}`)
      return true
    }).catch(async error => {
      const { text } = await board.shell(STATE)
      throw new Error(`${error.message}\n${text}\n${power!.said().slice(-3000)}`)
    })
    views.push((performance.now() - asked) / 1000)
    from = load.sent + 1
    const saved = await until('the remote shell', async () => {
      const { code, text: numbers } = await board.shell(SAVED)
      return code === 0 ? numbers.split('\n') : null
    })
    for (const [at, writer] of (['synced', 'unsynced', 'direct'] as const).entries())
      if (Number(saved[at] ?? 0) < load.said[writer]) caught[writer]++
    assert.equal(caught.synced, 0, `${about}: ${load.said.synced} was synced, the file ends with ${saved[0]}`)
    const { slots, last_update: last } = await updateState(token)
    assert.equal(slots.filter(({ running }) => running).length, 1, about)
    const running = slots.find(slot => slot.running)!
    assert.ok([`1.2.${patch - 1}`, `1.2.${patch}`].includes(running.version!), `${about}: ${JSON.stringify(slots)}`)
    if (last?.version === `1.2.${patch}` && last.outcome !== 'trial') outcomes.push(`${last.version} ${last.outcome}`)
    if (last?.version === `1.2.${patch}` && last.outcome === 'confirmed' && running.state === 'active')
      name = board.update(`1.2.${++patch}`)
  }

  for (let round = 0; round < RUNNING; round++) {
    await check(`before cut ${round + 1}`)
    load.start()
    const updates = !whole || round % 2 === 1
    if (updates) void board.ask('/api/update', { token, post: { source: `${served.url}/${name}` } }).catch(() => {})
    const before = [load.acknowledged.size, load.said.unsynced] as const
    const goesOn = (): boolean => load.acknowledged.size > before[0] + 5 && load.said.unsynced > before[1]
    await until('the load', goesOn)
    await cutAmong(updates ? WRITES.update : WRITES.load, () => load.stop())
    // some are during the start after the previous one
    for (let cuts = whole ? Number(round % 3 === 2) : 2; cuts > 0 && round + 1 < RUNNING; cuts--, round++) {
      power = board.power()
      await cutAmong(WRITES.start)
    }
    await start()
  }
  from = 1
  await check('at the end')
  const about = `${RUNNING} cuts, ${load.acknowledged.size} packets acknowledged, ${load.queries} questions answered`
  t.diagnostic(`${about}, updates: ${outcomes.join(', ')}; blocks ${JSON.stringify(lost)}, ${disk.flushes} flushes`)
  t.diagnostic(
    `lost by programs that skip the flush: ${JSON.stringify(caught)}; starts ${starts.map(Math.round).join(' ')} s, views ${views.map(Math.round).join(' ')} s`,
  )
  assert.ok(load.acknowledged.size > 5 * RUNNING, about)
  assert.ok(caught.unsynced > 0, 'a program that never syncs was not caught')
  assert.ok(!whole || caught.direct > 0, 'a program that skips the flush of the disk was not caught')
  // what was cut repeatedly succeeds once it is not cut; test:long tries an update in boot.long.test.ts
  if (!whole) return
  await answered('/api/update', { token, post: { source: `${served.url}/${name}` } })
  const end = await until(
    'the update',
    async () => {
      const { slots, last_update: last } = await updateState(token)
      return last?.outcome === 'confirmed' && slots.find(({ running }) => running)?.version === `1.2.${patch}`
    },
    2 * BOOT_MS,
  )
  assert.ok(end)
  from = 1
  await check('after the update')
})

/** Switches the board on and cuts the power at the `nth` write to the start partition; false if the page answered before that. */
async function cutAtStartWrite(nth: number): Promise<boolean> {
  let left = nth
  let cutting: Promise<void> | undefined
  power = board.power()
  disk.onWrite = at => {
    if (at >= PLACES.start && at < PLACES.bootA && --left === 0) cutting = cut()
  }
  await until('the cut', () => cutting !== undefined || board.health())
  disk.onWrite = undefined
  await (cutting ?? cut())
  return cutting !== undefined
}

test('a factory reset that is cut is repeated or was complete, and erases a card that ignores a discard', async () => {
  if (!whole) return
  await power!.cut()
  const data = (): Buffer => readFileSync(board.card).subarray(PLACES.data)
  const at = data().indexOf('-----BEGIN PRIVATE KEY-----')
  const secret = Buffer.from(data().subarray(at, at + 160))
  assert.ok(at > 0)
  board.write('factory-reset', '')
  disk = await board.loseUnflushed(random)
  await cutAtStartWrite(1 + Math.floor(4 * random()))
  const asked = orElse(false, () => board.read('factory-reset') === '')
  assert.ok(asked || !data().includes(secret), `seed ${seed}: the file is gone, and the old key is on the card`)
  await start()
  assert.ok(!data().includes(secret), `seed ${seed}: the old key is on the card`)
})

test('a cut at any write to the start partition leaves the settings of Imager, or the lines made from them', async t => {
  if (!whole) return
  const read = (name: string): string => orElse('', () => board.read(name))
  /** what the next start reads: a new os-node.conf that is complete replaces the other */
  const conf = (): string => {
    const fresh = read('os-node.conf.new')
    return fresh.endsWith('\n# complete\n') ? fresh : read('os-node.conf')
  }
  let nth = 0
  for (let goes = true; goes && nth < 12; ) {
    nth++
    await power?.cut()
    board.insertNewCard('')
    board.write('user-data', '#cloud-config\nhostname: greenhouse-1\n')
    disk = await board.loseUnflushed(random)
    goes = await cutAtStartWrite(nth)
    const about = `seed ${seed}, write ${nth}`
    const asked = read('user-data').includes('hostname: greenhouse-1')
    assert.ok(asked || conf().includes('\nhostname=greenhouse-1\n'), about)
    assert.ok(conf().includes('ssh_key=ssh-ed25519'), `${about}: os-node.conf is damaged`)
  }
  t.diagnostic(`${nth - 1} writes to the start partition`)
})
