// One secure exchange byte for byte, as docs/protocol.md explains it: AID 5, a clock moved by hand.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { World } from '../../lib/secureworld'

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')

/** The packets of the page, `→ 09…`: the hex columns of each line up to the comment, continued on indented lines. */
function packetsOfPage(): string[] {
  const page = readFileSync(join(process.env['OS_NODE_TEST_ROOT'] ?? '.', 'docs/protocol.md'), 'utf8')
  const packets: string[] = []
  for (const [, block] of page.matchAll(/^```capture\n(.*?)^```$/gms))
    for (const line of block!.split('\n').filter(Boolean)) {
      const bytes = /^(?:[→← ] )((?:[0-9a-f]{2})+(?: (?:[0-9a-f]{2})+)*)(?= {2}|$)/.exec(line)?.[1]?.replaceAll(' ', '')
      assert.ok(bytes, line)
      if (line[0] === ' ') packets[packets.length - 1] += bytes
      else packets.push(`${line[0]} ${bytes}`)
    }
  return packets
}

test('a secure exchange inside the delivery exchange matches the page byte for byte, with BAD_KEY when the upstream forgot the key', async t => {
  const w = new World()
  t.after(() => w.end())
  await w.start()
  const at = async (ms: number, value: number): Promise<void> => {
    await w.run(ms - (w.clock.wall() - 1_710_000_000_000))
    const sensors = [{ id: 'T1', status: 'OK', unit: 'K', value }]
    w.sent.appendFact({ id: 'GW', state: 'ONLINE', tRaw: w.clock.wall(), aid: 0, sensors }, { medium: 'local' })
    w.uplink.pump()
    await w.run(500)
  }
  await at(1000, 293.15)
  await at(2000, 293.25)
  await at(3000, 293.5)
  await at(20_000, 293.5)
  const carried = w.carried.map(({ from, bytes }) => `${from === 'a' ? '→' : '←'} ${hex(bytes)}`)
  const heart = w.carried.at(-2)!.bytes.slice(16, -2)
  await w.restartServer({ kill: true, forget: true })
  w.carried.length = 0
  w.receive.packet(heart, {
    medium: 'UDP',
    address: 'a:1',
    reply: async answer => carried.push(`← ${hex(answer)}`) > 0,
  })
  assert.deepEqual(carried, packetsOfPage())
  assert.deepEqual(
    w.got.facts.map(fact => [fact.tRaw, fact.sensors[0]!.value]),
    [
      [1_710_000_001_000, 293.15],
      [1_710_000_002_000, 293.25],
      [1_710_000_003_000, 293.5],
      [1_710_000_020_000, 293.5],
    ],
  )
})

test('the encrypted body of the page is decrypted without any of our code', () => {
  const key = createHash('sha256').update('8550000005000').digest()
  const body = Buffer.from('c8717861c9ca0c180a949f14226710577b300a569ab0a3669d4e81c0', 'hex')
  const plain = body.map((byte, i) => byte ^ key[(i + 28) % 32]! ^ 28)
  assert.equal(Buffer.from(plain).toString(), '5;GW.1.AY4j8VPQ|T1>K.K:ciSo|')
})
