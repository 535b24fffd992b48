// One CAN interface compared with bus.txt: it appears, disappears and has errors, on a kernel and with timers that the
// test plays.
import { test } from 'node:test'
import { type BusEdges, CanBus } from '../../../../drivers/can/bus'
import { OsError } from '../../../../src/lib/errors'
import { AGAIN } from '../../../../src/native'
import type { CanFrames } from '../../../../src/native/can'
import type { CanLink } from '../../../../src/native/can-link'
import { ManualClock, ManualTimers } from '../../../lib/manual'
import { dice, Trace } from '../../../lib/trace'

test('a CAN interface that appears, disappears and has errors behaves as bus.txt has it', async () => {
  const trace = new Trace('unit/drivers/can/bus.txt')
  const { below, chance, pick } = dice(8)
  for (let round = 0; round < 4; round++) {
    const timers = new ManualTimers(new ManualClock())
    const said: unknown[] = []
    const link = {
      index: 1,
      up: true,
      running: true,
      fd: false,
      kind: 'can',
      state: 'error-active',
      tx_errors: 0,
      rx_errors: 0,
      bitrate: 500_000,
      data_bitrate: 0,
      restart_ms: round === 1 ? 500 : 0,
      bus_errors: 0,
      warnings: 0,
      passives: 0,
      bus_offs: 0,
      arbitration_lost: 0,
      restarts: 0,
    } as CanLink
    let heard: () => void = () => undefined
    let changed: () => void = () => undefined
    let queue: number[] = []
    let trouble: string | undefined
    let open = 0
    const edges: BusEdges = {
      link: () => {
        if (trouble) throw new OsError(trouble as 'NOT_FOUND', `link ${trouble}`)
        return { ...link }
      },
      errors: () => ({
        receive: (frames: CanFrames) => {
          const [id] = queue.splice(0, 1)
          if (id === undefined || id < 0) return id ?? AGAIN
          Object.assign(frames, { id: () => id, data: () => Uint8Array.of(0, id & 0xff) })
          return 1
        },
        watch: (_: number, wake: (events: number) => void) => {
          heard = () => wake(1)
        },
        close: () => {
          open--
        },
      }),
      changes: back => {
        changed = back
        return { close: () => said.push('no more changes') }
      },
    }
    const bus = new CanBus('can0', timers, edges)
    const events = {
      lost: (reason: string) => said.push(`lost: ${reason}`),
      degraded: (reason: string) => said.push(`degraded: ${reason}`),
    }
    for (let k = 0; k < 150; k++) {
      if (chance(0.25))
        Object.assign(link, {
          up: chance(0.85),
          fd: chance(0.5),
          kind: pick(['can', 'can', 'can', 'virtual', chance(0.2) ? 'other' : 'can']),
          state: pick([
            'unknown',
            'error-active',
            'error-warning',
            'error-passive',
            chance(0.5) ? 'bus-off' : 'error-active',
          ]),
          tx_errors: below(256),
          data_bitrate: pick([0, 2e6]),
        })
      if (chance(0.1)) trouble = pick([undefined, undefined, 'NOT_FOUND', 'FORBIDDEN'])
      if (chance(0.3)) {
        try {
          bus.open(events, chance(0.2))
          open++
          said.push('open')
        } catch (error) {
          said.push([(error as OsError).code, (error as Error).message, (error as OsError).hint])
        }
      } else if (chance(0.1)) bus.close()
      if (chance(0.4)) {
        queue = [pick([0x40, 0x100, 0x24, 4, 8 + 4, 16 + 4, 64 + 4, -100, -19, -11])]
        heard()
      }
      if (chance(0.1)) bus.missed()
      const end = chance(0.15) ? bus.onReturn(() => said.push('back')) : undefined
      await timers.advance(pick([0, 50, 99, 100, 2900, 3000, 3500, 4999, 5000]))
      changed()
      if (chance(0.3)) end?.()
      if (k % 6 === 5)
        trace.say(`can ${round} ${k}`, [
          said.splice(0),
          bus.errorFrames,
          bus.detail,
          open,
          timers.armed,
          timers.pending,
        ])
    }
  }
  trace.compare()
})
