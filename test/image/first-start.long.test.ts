// The power of the emulated board is cut while it starts for the first time, and at each write to its start partition. The next start succeeds, with
// a token that opens the page and with the settings of Raspberry Pi Imager (R26).
// Needs: x64 boards debs image sshd
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { orElse } from '../../src/lib/errors'
import { Board, PLACES, until } from './board'
import { Cutter, FIRST, WRITES, whole } from './cutter'

const CONF = 'hostname=greenhouse-1\n'
const board = new Board()
const cutter = new Cutter(board)
const { random, seed } = cutter
before(() => board.make(CONF, '20min'))
after(() => board.remove())

test('a first start that is cut once or twice succeeds later, with a token that opens the page', async t => {
  for (let round = 0; round < FIRST; ) {
    await cutter.cut()
    board.insertNewCard(CONF)
    await cutter.loseUnflushed()
    let said = ''
    for (let left = !whole || random() < 0.5 ? 2 : 1; left > 0 && round < FIRST; left--, round++) {
      cutter.on()
      said += await cutter.cutAmong(WRITES.first)
    }
    await cutter.start()
    await cutter.tokenThatWorks(said)
  }
  t.diagnostic(`cuts of a first start: blocks ${JSON.stringify(cutter.lost)}`)
})

test('a cut at any write to the start partition leaves the settings of Imager, or the lines made from them', async t => {
  if (!whole) return
  await cutter.cut()
  board.insertNewCard('')
  board.write('user-data', '#cloud-config\nhostname: greenhouse-1\n')
  const disk = await board.loseUnflushed(random)
  const start = join(board.place, 'start.img')
  const read = (name: string): string =>
    orElse('', () => execFileSync('mtype', ['-i', start, `::${name}`], { encoding: 'utf8', stdio: 'pipe' }))
  /** what the next start reads: a new os-node.conf that is complete replaces the other */
  const conf = (): string => {
    const fresh = read('os-node.conf.new')
    return fresh.endsWith('\n# complete\n') ? fresh : read('os-node.conf')
  }
  const damaged: string[] = []
  let writes = 0
  const seen = { asked: 0, applied: 0 }
  disk.onWrite = at => {
    if (at < PLACES.start || at >= PLACES.bootA) return
    writes++
    for (let draw = 1; draw <= 3; draw++) {
      writeFileSync(start, disk.afterCut(random, PLACES.start, PLACES.bootA - PLACES.start))
      const asked = read('user-data').includes('hostname: greenhouse-1')
      const applied = conf().includes('\nhostname=greenhouse-1\n')
      if (asked) seen.asked++
      if (applied) seen.applied++
      if (!(asked || applied)) damaged.push(`write ${writes}, draw ${draw}: the settings are gone`)
      if (!conf().includes('ssh_key=ssh-ed25519'))
        damaged.push(`write ${writes}, draw ${draw}: os-node.conf is damaged`)
    }
  }
  const power = board.power()
  await until('the page of the board', () => board.health())
  await power.cut()
  assert.deepEqual(damaged, [], `seed ${seed}`)
  assert.ok(seen.asked > 0 && seen.applied > 0, JSON.stringify(seen))
  t.diagnostic(`${writes} writes to the start partition, three cuts at each: ${JSON.stringify(seen)}`)
})
