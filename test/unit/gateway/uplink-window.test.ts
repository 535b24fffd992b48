// How much an uplink has on its way follows from its medium (X29).
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { Uplink } from '../../../src/gateway/uplink/uplink'
import { systemClock } from '../../../src/lib/clock'
import { silentLogger } from '../../../src/lib/logger'
import type { Medium, PacketHandler } from '../../../src/links/contracts'
import { MEDIA } from '../../../src/links/registry'
import { FlashLog } from '../../../src/log'
import { DeliveryReceiver, parseFrame } from '../../../src/protocol/delivery'
import { SecureClient } from '../../../src/protocol/secure-client'
import { resolve } from '../../../src/units/canonical'
import { wireUnits } from '../../../src/units/wire'

const units = { ...wireUnits(), resolve }

/** A far end that answers the probe and never a frame. */
class Mute implements Medium {
  readonly name = 'up'
  readonly counters = { rx: 0, tx: 0, errors: 0 }
  readonly maxPacket = 200
  highest = 0
  largest = 0
  #handler: PacketHandler = () => undefined
  constructor(readonly medium: string) {}
  open = async (): Promise<void> => undefined
  close = async (): Promise<void> => undefined
  onPacket(handler: PacketHandler): void {
    this.#handler = handler
  }
  async send(bytes: Uint8Array): Promise<boolean> {
    this.largest = Math.max(this.largest, bytes.length)
    const pong = new DeliveryReceiver().probeReply(bytes)
    if (pong) this.#handler(pong, { medium: this.medium, address: 'far', reply: async () => true })
    const frame = parseFrame(bytes)
    if (frame) this.highest = Math.max(this.highest, frame.firstSeq + frame.n - 1)
    return true
  }
}

test('8 packets on LoRa, RS485 and Bluetooth, 1024 elsewhere; no frame is larger than the medium takes', async t => {
  assert.deepEqual(
    MEDIA.filter(info => info.in_flight !== 1024).map(info => [info.name, info.in_flight]),
    [
      ['RS485', 8],
      ['LoRa', 8],
      ['Bluetooth', 8],
    ],
  )
  for (const [medium, window] of [
    ['LoRa', 8],
    ['UDP', 20],
  ] as const) {
    const dir = mkdtempSync(join(tmpdir(), 'os-node-window-'))
    const log = await FlashLog.open({ dir, commitIntervalMs: 5 })
    const far = new Mute(medium)
    // with a key, for of plaintext only a few packets go before one is named
    const secure = new SecureClient()
    secure.sessions.keyOn(7, 1e12)
    const uplink = new Uplink(
      {
        ...{ name: 'up', diffBase: 'sticky', frames: 'full', fullEvery: 100, fullIntervalS: 60, precision: 4 },
        delivery: 'auto',
      },
      {
        log,
        medium: far,
        clock: systemClock,
        logger: silentLogger,
        identity: { assigned: true, assignedId: 7 } as never,
        units,
        nextSeq: () => 1,
        randomEpoch: () => 99,
        lost: reason => assert.fail(reason),
        onControl: () => undefined,
        onReady: () => undefined,
        holdMs: () => 0,
        secure,
      },
    )
    t.after(async () => {
      uplink.stop()
      await log.close()
      rmSync(dir, { recursive: true, force: true })
    })
    log.onCommit(() => uplink.pump())
    await uplink.probe()
    uplink.link({ state: 'up', since: 0 })
    for (let k = 1; k <= 20; k++)
      log.appendFact(
        {
          id: 'GW',
          state: 'ONLINE',
          tRaw: 1e12 + k,
          aid: 7,
          sensors: [{ id: 'T', status: 'OK', unit: 'K', value: k }],
        },
        { medium: 'local' },
      )
    await log.flush()
    for (let k = 0; k < 500 && far.highest < window; k++) await new Promise(done => setTimeout(done, 10))
    await new Promise(done => setTimeout(done, 50))
    assert.equal(far.highest, window, medium)
    assert.equal(uplink.status().in_flight, window)
    assert.equal(uplink.maxPacket, 200 - 18)
    assert.ok(far.largest <= 200)
  }
})
