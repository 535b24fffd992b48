// Whatever happens to the paths (loss in both directions, late packets, black holes, unplugging, kills of the gateway, a large backlog, alarms, packets too
// large for some), no value ever differs from the logged one for its device and time, and after the paths are repaired everything arrives (R9, R10,
// R12). Seeded, and the same on both cores.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { alarmCheck } from '../../../../src/gateway/uplink/alarms'
import { NativeCores } from '../../../lib/cores'
import { prng } from '../../../lib/random'
import { digest, Trace } from '../../../lib/trace'
import { type RoadSpec, UplinkWorld } from '../../../lib/uplinkworld'

const ROADS: RoadSpec[] = [
  { name: 'one', maxPacket: 300 },
  { name: 'two', medium: 'TCP', maxPacket: 4000, entry: { diff_base: 'sticky' } },
  { name: 'three', medium: 'LoRa', maxPacket: 140 },
]

const traces = [
  new Trace('unit/gateway/uplink/uplinks-property.txt'),
  new Trace('unit/gateway/uplink/uplinks-property.txt'),
]
after(() => {
  for (const trace of traces) trace.compare()
})

for (let k = 0; k < 16; k++) {
  const seed = 1 + (k % 8)
  const trace = traces[k >> 3]!
  const cores = k < 8 ? undefined : new NativeCores()
  test(`no value is lost or changed over paths that fail and recover, seed ${seed} on ${cores ? 'rscore' : 'pycore'}`, async t => {
    const random = prng(seed)
    const w = new UplinkWorld({ failover: { after_s: 1, back_s: 4 } }, true, cores)
    t.after(() => w.end())
    w.log.isAlarm = alarmCheck(['ALARM'])
    await w.apply(...ROADS)
    let mended = false
    const spoil = (): void => {
      for (const road of w.roads.values())
        road.lose = (packet, up) => !mended && random() < (packet[0] === 0x05 && !up ? 0.3 : 0.15)
    }
    const roadsOf = ROADS.map(({ name }) => name)
    /** What was sent over each path and arrived, and the state of the uplinks. */
    const say = (what: string): void => {
      const sent = [...w.roads.values()].map(road =>
        digest(road.opens, ...road.sent.flatMap(({ bytes, at }) => [bytes, at])),
      )
      const arrived = digest(0, ...w.got.facts.map(({ tRaw }) => tRaw))
      trace.say(`seed ${seed}, ${what}`, [sent, arrived, w.got.lastSeq, w.log.lastSeq, [...w.log.cursors]])
      for (const uplink of w.uplinks.list) trace.say(`  ${uplink.name}`, uplink.status())
    }
    for (let step = 0; step < 60; step++) {
      spoil()
      const road = w.road(roadsOf[Math.floor(random() * 3)]!)
      const what = Math.floor(random() * 8)
      if (what === 0) road.unplug()
      else if (what === 1) road.cut = !road.cut
      else if (what === 2) road.dead = false
      else if (what === 3) road.delayMs = 5 + Math.floor(random() * 80)
      else if (what === 4 && step % 5 === 0) {
        await w.kill()
        await w.apply(...ROADS)
      } else if (what === 5 && step % 4 === 0) for (let k = 0; k < 1300; k++) w.fact(k % 4 === 0 ? 9 : undefined)
      if (step % 12 === 11) say(`step ${step}`)
      for (let k = 0; k < 20; k++) {
        w.fact([undefined, 9, 77][Math.floor(random() * 3)], random() < 0.05 ? 'ALARM' : 'OK')
        // too large for the third, or for all but the second
        if (random() < 0.1) w.fact(78, 'OK', random() < 0.5 ? 8 : 20)
        await w.run(40, 20)
      }
    }
    say('spoiled')
    mended = true
    for (const road of w.roads.values()) Object.assign(road, { cut: false, dead: false, delayMs: 5 })
    for (let k = 0; k < 400 && w.uplinks.backlog > 0; k++) await w.run(1000, 25)
    say('mended')
    const logged = new Set(w.logged)
    for (const line of w.arrived) assert.ok(logged.has(line), `never logged: ${line}`)
    assert.equal(w.uplinks.backlog, 0)
    assert.deepEqual([...new Set(w.arrived)], w.logged)
    assert.equal(new Set(w.uplinks.list.map(uplink => uplink.status().carrying)).size, 2, 'exactly one is active')
    if (cores) assert.ok(cores.largest > 8 && cores.checked > 1000, `${cores.largest}, ${cores.checked}`)
  })
}
