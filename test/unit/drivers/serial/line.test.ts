// A trace of three users of one serial port, compared with line-trace.txt: what is opened and closed, what they receive and
// report, while the port vanishes, returns under another name or as another adapter, and does not open.
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { object, parse } from 'valibot'
import { serialEntries, serialLine } from '../../../../drivers/serial'
import type { SerialContext } from '../../../../drivers/serial/line'
import type { SerialSettings } from '../../../../drivers/serial/serial-options'
import { OsError } from '../../../../src/lib/errors'
import { silentLogger } from '../../../../src/lib/logger'
import { ManualClock, ManualTimers } from '../../../lib/manual'
import { dice, digest, Trace } from '../../../lib/trace'

type Events = Parameters<NonNullable<SerialContext['openPort']>>[2]

test('three users of one serial port behave as line-trace.txt has it', async t => {
  const trace = new Trace('unit/drivers/serial/line-trace.txt')
  const { below, chance, pick } = dice(37)
  const dir = mkdtempSync(join(tmpdir(), 'serial-course-'))
  t.after(() => rmSync(dir, { recursive: true }))
  for (let round = 0; round < 4; round++) {
    const timers = new ManualTimers(new ManualClock())
    const { clock } = timers
    const said: unknown[] = []
    const say =
      (...what: unknown[]) =>
      (value?: unknown): void =>
        void said.push([...what, String(value).replace(dir, '')])
    const failed =
      (...what: unknown[]) =>
      ({ code, message, hint }: OsError): void =>
        void said.push([...what, code, message.replace(dir, ''), hint])
    const paths = [0, 1].map(n => join(dir, `ttyUSB${round}${n}`))
    let is: string | undefined
    let taken = false
    let refuses: OsError | undefined
    const open = new Map<string, Events>()
    const later = async (): Promise<void> => {
      if (chance(0.3)) await new Promise<void>(resolve => void timers.after(pick([10, 400]), resolve))
    }
    const context: SerialContext = {
      ...{ clock, timers },
      logger: { ...silentLogger, info: say('info'), error: say('error') },
      names: {
        resolve: async (_, before) => {
          say('resolve')(before?.place)
          await later()
          if (!is) throw new OsError('NOT_FOUND', 'no port')
          return is
        },
        isTaken: async () => taken,
        usbOf: async path =>
          (chance(0.8) ? { vendor: 'v', product: 'p', serial: '', place: path.slice(-1) } : undefined) as never,
      },
      openPort: (async (path: string, { baudrate }: SerialSettings, events: Events) => {
        say('open')(path)
        await later()
        if (refuses) throw refuses
        if (open.has(path)) say('open twice')(path)
        open.set(path, events)
        return {
          ...{ path, baudrate: pick([baudrate, baudrate, Math.round(baudrate * 1.03), Math.round(baudrate * 0.96)]) },
          write: async (bytes: Uint8Array) => {
            say('write')(bytes)
            await later()
            if (chance(0.1)) throw new OsError('TIMEOUT', 'not taken')
          },
          close: async () => {
            say('close')(path)
            open.delete(path)
            await later()
          },
        }
      }) as unknown as NonNullable<SerialContext['openPort']>,
      ...(round === 1 && {
        prepare: async () => {
          await later()
          if (chance(0.2)) throw new OsError('NO_DRIVER', 'no RS485')
        },
      }),
    }
    const lines = [0, 1, 2].map(n => {
      const raw = { port: 'adapter', baudrate: round === 2 && n === 2 ? 19_200 : 9600 }
      const line = serialLine(`l${n}`, parse(object(serialEntries(1_000_000)), raw) as SerialSettings, context)
      line.onData(
        chunk => {
          say(n, 'heard')(chunk)
          if (chunk[0] === 9) throw new Error('not handled')
        },
        byte => {
          say(n, 'damaged')(byte)
          if (byte === 9) throw new Error('not handled')
        },
      )
      return line
    })
    const up = new Set<number>()
    await trace.steps(`${round}`, 300, 15, async k => {
      if (k === 0 || chance(0.08)) is = pick([...paths, undefined])
      if (is && chance(0.2)) {
        // the mode distinguishes it from before: two times of a file may be equal within some milliseconds
        writeFileSync(is, '')
        chmodSync(is, 0o600 + (k % 64))
      }
      if (chance(0.1)) for (const path of paths) rmSync(path, { force: true })
      taken = chance(0.2)
      refuses = chance(0.15) ? new OsError(pick(['PORT_BUSY', 'NO_ACCESS']), 'refused') : undefined
      const n = below(3)
      const line = lines[n]!
      if (chance(up.has(n) ? 0.05 : 0.5)) {
        up.add(n)
        const lost = (why: string): void => {
          up.delete(n)
          say(n, 'lost')(why)
        }
        void line.open({ lost, degraded: say(n, 'degraded') }).then(say(n, 'opened'), error => {
          up.delete(n)
          failed(n)(error)
        })
      } else if (chance(0.1)) {
        up.delete(n)
        void line.close().then(say(n, 'closed'))
      } else if (chance(0.3)) timers.after(pick([300, 5000]), line.onReturn(say(n, 'back')))
      if (chance(0.4)) void line.write(Uint8Array.of(k & 255, 2)).then(say(n, 'written'), failed(n))
      if (chance(0.1))
        void line
          .exclusive(async () => {
            say(n, 'alone')()
            await later()
            return k
          })
          .then(say(n, 'alone no more'), failed(n))
      for (const events of open.values()) {
        if (chance(0.3)) events.data(Uint8Array.of(pick([1, 9]), k & 255))
        if (chance(0.1)) events.damaged(pick([1, 9]))
        if (chance(0.05)) events.stuck(pick(['', 'nothing goes out']))
        if (chance(0.04)) events.lost('unplugged')
      }
      await timers.advance(pick([0, 10, 249, 250, 999, 1000, 3000]))
      const state = lines.map(({ counters, device, port }) => [counters, device?.slice(-1), port !== undefined])
      return [digest(0, Buffer.from(JSON.stringify([said.splice(0), state]))), open.size, clock.mono(), timers.pending]
    })
    for (const line of lines) await Promise.all([line.close(), timers.advance(1000)])
    trace.say('closed', [open.size, lines.map(({ counters }) => counters)])
  }
  trace.compare()
})
