// The path of a frame from the socket to the newest values allocates no objects. The remaining bytes are what the engine
// itself needs to pass times and fractions between functions: 16 bytes each.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { CanPort } from '../../../../../drivers/can/signals/feed'
import { canSourceOptions } from '../../../../../drivers/can/signals/signal-options'
import { CanSource } from '../../../../../drivers/can/signals/signal-source'
import { systemClock } from '../../../../../src/lib/clock'
import { silentLogger } from '../../../../../src/lib/logger'
import { checkOptions } from '../../../../../src/links/driver-options'
import { AGAIN } from '../../../../../src/native'
import { CAN_EFF, type CanFrames } from '../../../../../src/native/can'

const DBC = `BO_ 291 Basics: 8 Engine
 SG_ Coolant : 7|16@0- (0.1,-40) [-40|215] "degC" X
 SG_ Speed : 16|12@1+ (0.0625,0) [0|250] "km/h" X
 SG_ Long : 8|48@1+ (1,0) [0|0] "" X
BO_ 2364540158 EEC1: 8 Engine
 SG_ EngSpeed : 24|16@1+ (0.125,0) [0|8031.875] "rpm" X
BO_ 300 Mux: 8 Engine
 SG_ Which M : 0|8@1+ (1,0) [0|0] "" X
 SG_ One m1 : 8|32@1+ (1,0) [0|0] "bar" X
 SG_ Two m2 : 8|32@1- (1,0) [0|0] "bar" X
BO_ 301 Floats: 8 Engine
 SG_ Float : 0|32@1- (1,0) [0|0] "V" X
SIG_VALTYPE_ 301 Float : 1;
BA_ "ProtocolType" "J1939";`

/** so few that their garbage is not collected in between */
const BATCHES = 300
/** a minimum; the engine compiles the code on its own thread, whenever that is scheduled */
const RUNS = 25
const MOST_RUNS = 500
const FRAMES = 60
/** times and fractions: 52 bytes here; one array view for each signal makes it 220 */
const MOST_BYTES = 80

test('decoding frames allocates no objects', async () => {
  setFlagsFromString('--expose-gc')
  const gc = runInNewContext('gc') as () => void
  const dbc = Buffer.from(DBC)
  const payload = Buffer.from('0102030405064041', 'hex')
  const ids = [291, CAN_EFF + 0x0cf00417, 300, 301]
  let wake = (): void => undefined
  const port: CanPort = {
    dropped: 0,
    receiveBuffer: 1 << 30,
    watch: (_, run) => {
      wake = () => run(1)
    },
    receive: (frames: CanFrames) => {
      for (let slot = 0; slot < FRAMES; slot++) {
        payload[0] = 1 + ((slot >> 2) & 1)
        payload[2] = slot
        frames.set(slot, ids[slot & 3]!, payload)
      }
      return FRAMES
    },
    close: () => undefined,
  }
  const link = { up: true, kind: 'can', state: 'error-active', restart_ms: 0 } as never
  const ports = {
    open: () => port,
    link: () => link,
    errors: () => ({ ...port, receive: () => AGAIN, watch: () => undefined }),
    changes: () => ({ close: () => undefined }),
  }
  const options = checkOptions(canSourceOptions, { interface: 'can0', dbc: 'x' }, 'x')
  const files = { size: () => dbc.length, read: () => dbc }
  const source = new CanSource('x', options, { clock: systemClock, logger: silentLogger }, { files, ports })
  await source.open({ lost: assert.fail, degraded: () => undefined })
  const run = (): number => {
    gc()
    const before = process.memoryUsage().heapUsed
    for (let k = 0; k < BATCHES; k++) wake()
    return process.memoryUsage().heapUsed - before
  }
  const grown: number[] = []
  const median = (): number => grown.slice(-5).sort((a, b) => a - b)[2]! / (BATCHES * FRAMES)
  while (grown.length < RUNS || (median() >= MOST_BYTES && grown.length < MOST_RUNS)) grown.push(run())
  const frames = source.counters.detail!.frames
  const readings = await source.read()
  await source.close()
  assert.equal(frames, grown.length * BATCHES * FRAMES)
  assert.ok(readings.every(([, status]) => status === 'OK'))
  assert.ok(median() < MOST_BYTES, `${median()} bytes for each frame`)
})
