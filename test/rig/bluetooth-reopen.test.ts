// The library opened, scanned with, reset and closed repeatedly, with its adapter unplugged in between: nothing is left
// behind, and the data of a device is received every time (R14, R20).
// Needs: bluetooth
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { after, test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { Adapter } from '../../drivers/bluetooth/adapter'
import { NobleRadio } from '../../drivers/bluetooth/noble'
import { systemClock } from '../../src/lib/clock'
import { silentLogger } from '../../src/lib/logger'
import { systemTimers } from '../../src/lib/timers'
import { Advertiser, adapterAddress, plugInAdapters, serviceDataOf, unplugAdapters } from '../lib/ble'
import { until } from '../lib/gateway'
import { inTheRig } from '../lib/rig'

setFlagsFromString('--expose-gc')
const gc = runInNewContext('gc') as () => void

const ROUNDS = 10
const UNPLUGGED = 5

/** What a process can leave behind: descriptors, listeners, handles and timers of the loop. */
const left = (): Record<string, number> => ({
  descriptors: readdirSync('/proc/self/fd').length,
  listeners: process.eventNames().reduce((sum, name) => sum + process.listenerCount(name as 'exit'), 0),
  handles: process.getActiveResourcesInfo().filter(name => name !== 'Timeout').length,
})

/** Closed objects disappear a moment later. */
const nothingMore = (than: Record<string, number>): Promise<unknown> =>
  until(`no more than ${JSON.stringify(than)}`, () => {
    const now = left()
    if (Object.entries(now).some(([what, count]) => count > than[what]!)) throw new Error(JSON.stringify(now))
    return true
  })

inTheRig(
  () => {
    let device: Advertiser | undefined
    const send = async (): Promise<void> => {
      device = await Advertiser.on(1)
      device.send(serviceDataOf(0xfcd2, '4002ca0903bf13'))
    }
    after(async () => {
      device?.close()
      await unplugAdapters()
    })

    test(`after ${ROUNDS} openings, with a reset in each, it receives every time and leaves nothing behind`, async t => {
      await plugInAdapters(2)
      await send()
      const radio = new NobleRadio({ adapter: 'hci0', extended: false, logger: silentLogger })
      t.after(() => radio.close())
      const round = async (): Promise<void> => {
        let heard = 0
        const report = ({ address }: { address: string }): void => {
          if (address === adapterAddress(1)) heard++
        }
        await radio.open({ report, lost: why => assert.fail(why), disturbed: () => undefined })
        await radio.startScan()
        await until('it is received', () => heard > 0)
        assert.equal(await radio.reset(), true)
        await radio.startScan()
        heard = 0
        await until('heard after the reset', () => heard > 0)
        await radio.stopScan()
        await radio.close()
        gc() // finalizers of the collected library must not affect the next opening
      }
      for (let k = 0; k < 3; k++) await round()
      gc()
      const [before, heap] = [left(), process.memoryUsage().rss]
      for (let k = 0; k < ROUNDS; k++) await round()
      await nothingMore(before)
      const grown = process.memoryUsage().rss - heap
      assert.ok(grown < 16 << 20, `memory grew by ${grown} bytes`)
      assert.deepEqual(radio.detail, { unreadable: 0 })
    })

    test(`an adapter unplugged ${UNPLUGGED} times is lost each time, and used again`, async () => {
      const radio = new NobleRadio({ adapter: 'hci0', extended: false, logger: silentLogger })
      const adapter = new Adapter({
        name: 'hci0',
        radio,
        clock: systemClock,
        timers: systemTimers,
        logger: silentLogger,
      })
      let first: Record<string, number> | undefined
      for (let k = 0; k < UNPLUGGED; k++) {
        const lost: string[] = []
        await adapter.join({ lost: why => lost.push(why), degraded: () => undefined })
        let heard = 0
        const end = adapter.listen(adapterAddress(1), () => heard++)
        await until('it is received', () => heard > 0)
        device?.close()
        device = undefined
        await unplugAdapters()
        await until('lost', () => lost.length > 0)
        end()
        assert.equal(lost.length, 1, lost.join('; '))
        if (k === UNPLUGGED - 1) break
        first ??= left()
        await plugInAdapters(2)
        await send()
      }
      await nothingMore(first!)
    })
  },
  { seconds: 600, forceExit: true },
)
