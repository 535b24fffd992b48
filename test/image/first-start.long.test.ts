// The power of the emulated board is cut while it starts for the first time, and at each write to its start partition. The next start succeeds, with
// a token that opens the page and with the settings of Raspberry Pi Imager (R26).
// Needs: x64 boards debs image sshd
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { orElse } from '../../src/lib/errors'
import { Board } from './board'
import { Cutter, FIRST, random, seed, WRITES, whole } from './cutter'

const CONF = 'hostname=greenhouse-1\n'
const board = new Board()
const cutter = new Cutter(board)
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
  const read = (name: string): string => orElse('', () => board.read(name))
  /** what the next start reads: a new os-node.conf that is complete replaces the other */
  const conf = (): string => {
    const fresh = read('os-node.conf.new')
    return fresh.endsWith('\n# complete\n') ? fresh : read('os-node.conf')
  }
  let nth = 0
  for (let goes = true; goes && nth < 12; ) {
    nth++
    await cutter.cut()
    board.insertNewCard('')
    board.write('user-data', '#cloud-config\nhostname: greenhouse-1\n')
    await cutter.loseUnflushed()
    goes = await cutter.cutAtStartWrite(nth)
    const about = `seed ${seed}, write ${nth}`
    const asked = read('user-data').includes('hostname: greenhouse-1')
    assert.ok(asked || conf().includes('\nhostname=greenhouse-1\n'), about)
    assert.ok(conf().includes('ssh_key=ssh-ed25519'), `${about}: os-node.conf is damaged`)
  }
  t.diagnostic(`${nth - 1} writes to the start partition`)
})
