// A trace of a medium with two peers, compared with medium-trace.txt: what it sends, passes on, counts and reports while the kernel
// that the test plays is full, late, silent or gone.
import { constants } from 'node:os'
import { test } from 'node:test'
import { CanMedium, settingsOf } from '../../../../drivers/can/medium'
import { OsError } from '../../../../src/lib/errors'
import { silentLogger } from '../../../../src/lib/logger'
import { AGAIN, NO_BUFFERS, READABLE, WRITABLE } from '../../../../src/native'
import type { CanLink } from '../../../../src/native/can-link'
import { ManualClock, ManualTimers } from '../../../lib/manual'
import { dice, digest, outcome, Trace } from '../../../lib/trace'
import { Kernel } from './kernel'

const ECOMM = 70
const { EBADMSG, EILSEQ, EMSGSIZE, ENETDOWN } = constants.errno

test('a medium with two peers behaves as medium-trace.txt has it', async () => {
  const trace = new Trace('unit/drivers/can/medium-trace.txt')
  const { chance, pick } = dice(17)
  for (const [round, mode] of (['send', 'listen', 'send'] as const).entries()) {
    const clock = new ManualClock(1_000_000)
    const timers = new ManualTimers(clock)
    const said: unknown[] = []
    const kernels: Kernel[] = []
    const link = {
      up: true,
      running: true,
      fd: true,
      kind: 'can',
      state: 'error-active',
      tx_errors: 0,
      restart_ms: 0,
    } as CanLink
    let trouble: 'NOT_FOUND' | 'FORBIDDEN' | undefined
    let refused: OsError | undefined
    let changed = (): void => undefined
    const medium = new CanMedium(
      'm',
      {
        ...{ mode, interface: `bus-${mode}${round}`, peer: mode === 'send' ? 5 : undefined },
        peers: [
          {
            aid: 5,
            tx_id: 0x7e0,
            rx_id: '0x7e8',
            fd: true,
            frame_bytes: 64,
            brs: true,
            block_size: 8,
            separation_us: 300,
          },
          {
            aid: 6,
            tx_id: 0x18da00f1,
            rx_id: 0x18daf100,
            fd: false,
            padding: 0xcc,
            block_size: 0,
            separation_us: 2000,
          },
        ] as never,
        ...{ max_packet: mode === 'listen' ? 4096 : 4095, send_timeout_ms: 1000 },
      },
      {
        ...{ clock, timers, kernelMax: () => most },
        logger: { ...silentLogger, debug: text => said.push(text), error: text => said.push(text) },
        edges: {
          link: () => {
            if (trouble) throw new OsError(trouble, `link ${trouble}`)
            return { ...link }
          },
          errors: () => ({ receive: () => AGAIN, watch: () => undefined, close: () => said.push('no more errors') }),
          changes: back => {
            changed = back
            return { close: () => undefined }
          },
        },
        openSocket: (name, options) => {
          said.push([name, options])
          if (refused) throw refused
          kernels.push(new Kernel())
          return kernels.at(-1)!
        },
      },
    )
    let handled = 0
    let most = 4094
    medium.onPacket((packet, { address, reply }) => {
      said.push([Buffer.from(packet).toString(), address])
      if (++handled % 7 === 0) throw new Error('not handled')
      if (handled % 5 === 0) void reply(packet).then(taken => said.push(['replied', taken]))
    })
    const events = {
      lost: (reason: string) => {
        open = false
        said.push(`lost: ${reason}`)
      },
      degraded: (reason: string) => said.push(`degraded: ${reason}`),
    }
    let open = false
    let sends = 0
    const send = (size: number): void => {
      const name = sends++
      void medium.send(Buffer.alloc(size, 65 + (name % 26))).then(taken => said.push([name, size, taken]))
    }
    await trace.steps(mode, 300, 15, async k => {
      const mended = k % 50 === 49
      if (mended) Object.assign(link, { up: true, fd: true, state: 'error-active' })
      if (mended) trouble = undefined
      if (k === 40) most = 4096
      if (mended || chance(open ? 0.03 : 0.5)) {
        refused = chance(0.2) && !mended ? new OsError('LINK_DOWN', 'no socket') : undefined
        await medium.open(events).then(
          () => {
            open = true
          },
          error => said.push([error.code, error.message]),
        )
        said.push(['open', open])
      } else if (chance(0.02)) await medium.close()
      for (let n = pick([0, 1, 1, 2]); n > 0; n--) send(pick([0, 1, 8, 62, 63, 100, 4095, 4096]))
      if (k % 100 === 50) for (let n = 0; n < 1030; n++) send(1)
      if (k % 100 === 0) for (const size of [...Array(63).fill(4095), 1, 4095, 4095, 64, 63]) send(size)
      for (const kernel of kernels.slice(-2)) {
        if (kernel.closed) continue
        if (chance(0.3))
          kernel.answers.push(pick([NO_BUFFERS, NO_BUFFERS, AGAIN, -EILSEQ, chance(0.2) ? -ENETDOWN : AGAIN]))
        if (chance(0.3)) kernel.incoming.push(...pick([['x'], ['yy', 'z', 'abc'], [-ECOMM], [-EILSEQ], [-EBADMSG]]))
        if (chance(0.03)) kernel.incoming.push(...'abcdefghijkl')
        if (chance(0.02)) kernel.incoming.push(-ENETDOWN)
        if (chance(0.1)) kernel.pending = pick([-ECOMM, -ECOMM, -EMSGSIZE, -EILSEQ])
        if (chance(0.1)) kernel.dropped++
        if (chance(0.8)) kernel.wake(pick([READABLE, WRITABLE, READABLE | WRITABLE]) & (kernel.events | READABLE))
      }
      if (chance(0.08)) {
        Object.assign(link, {
          up: chance(0.9),
          fd: chance(0.9),
          state: pick(['error-active', 'error-active', 'error-passive', 'bus-off']),
        })
        trouble = chance(0.1) ? 'NOT_FOUND' : undefined
        changed()
      }
      await timers.advance(pick([0, 1, 4, 5, 100, 999, 1000, 4999]))
      const { tx, rx, errors, dropped, detail } = medium.counters
      const sockets = kernels.map(({ sent, events, closed }) => [sent.length, sent.at(-1)?.length, events, closed])
      const seen = digest(0, Buffer.from(JSON.stringify(said.splice(0))))
      return [seen, [tx, rx, errors, dropped, detail], timers.armed, timers.pending, kernels.length, sockets.slice(-2)]
    })
    await medium.close()
    trace.say('closed', [said, timers.pending])
  }
  const peer = { tx_id: 1, rx_id: 2, separation_us: 0 }
  const parts = { clock: new ManualClock(), logger: silentLogger }
  for (const mode of ['send', 'listen'] as const)
    for (const peers of [
      [],
      [peer],
      [
        { ...peer, aid: 1 },
        { ...peer, aid: 2, tx_id: 0x7ff },
      ],
    ])
      for (const aid of [undefined, 1, 3])
        trace.say(
          outcome(() => new CanMedium('m', { mode, peers, peer: aid, interface: 'x' } as never, parts).maxPacket),
        )
  for (const separation_us of [0, 100, 900, 1000, 1001, 127_000])
    for (const tx_id of [1, 0x7fe, 0x7ff, 0x800, '0x900'])
      trace.say('', settingsOf({ ...peer, separation_us, tx_id } as never, {} as never))
  trace.compare()
})
