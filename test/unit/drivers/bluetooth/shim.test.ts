// The UDP substitute for a radio: raw packets, one per datagram, in both directions; used only when configured.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createBluetooth } from '../../../../drivers/bluetooth'
import { systemClock } from '../../../../src/lib/clock'
import { silentLogger } from '../../../../src/lib/logger'
import { freeUdpPort } from '../../../lib/gateway'

const context = { clock: systemClock, logger: silentLogger }
const events = { lost: () => undefined, degraded: () => undefined }

test('packets go to the port and answers are received; a port in use is reported', async () => {
  const port = await freeUdpPort()
  const listener = createBluetooth('in', { mode: 'listen', shim: 'udp', port }, context)
  const sender = createBluetooth('out', { mode: 'udp_shim', port }, context)
  const second = createBluetooth('in2', { mode: 'listen', shim: 'udp', port }, context)
  try {
    await listener.open(events)
    await sender.open(events)
    await assert.rejects(second.open(events), { code: 'PORT_BUSY' })
    listener.onPacket((packet, { reply }) => void reply(Uint8Array.of(0x0a, ...packet.subarray(1))))
    const answer = new Promise<string>(resolve =>
      sender.onPacket(packet => resolve(Buffer.from(packet).toString('hex'))),
    )
    assert.equal(await sender.send(Uint8Array.of(9, 0, 7)), true)
    assert.equal(await answer, '0a0007')
    assert.equal(await listener.send(Uint8Array.of(1)), false, 'it only answers')
    assert.equal(await sender.send(new Uint8Array(sender.maxPacket + 1)), false)
    assert.equal(await second.send(Uint8Array.of(1)), false, 'not open')
    assert.deepEqual(
      [listener, sender, second].map(end => end.counters.errors),
      [1, 1, 1],
    )
    assert.equal(await sender.send(new Uint8Array(sender.maxPacket).fill(9)), true)
  } finally {
    await Promise.all([listener.close(), sender.close(), second.close()])
  }
})

test('when no process listens at the port, that is reported, and the link stays open', async () => {
  const port = await freeUdpPort()
  const sender = createBluetooth('out', { shim: 'udp', port }, context)
  try {
    const told = new Promise<string>((resolve, reject) => {
      void sender.open({ lost: reject, degraded: resolve }).then(() => sender.send(Uint8Array.of(9)))
    })
    assert.match(await told, /no listener/)
  } finally {
    await sender.close()
  }
})
