// Bytes of heap that a packet costs a pair of media, one of which sends to the other: both halves, and nothing of the gateways behind them.
// Loaded by ../media.mjs with a young generation so large that no collection falls in. Serial lines are pseudo-terminals, QUIC and IWIP are
// the loopback; CAN, radio and Bluetooth are buses in memory where the driver meets the kernel.
// `node inside.cjs MEDIUM FOLDER` prints `{bytes, packets, collections}`; with `profile` it writes FOLDER/profile.json:
// `{profile, user, system, waits}`, the last three for each packet, measured before the profile.
import { spawn } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { existsSync, writeFileSync } from 'node:fs'
import { Session } from 'node:inspector/promises'
import { join } from 'node:path'
import { PerformanceObserver } from 'node:perf_hooks'
import { createBluetooth } from '../../drivers/bluetooth'
import { Adapter } from '../../drivers/bluetooth/adapter'
import type { BleConnectOptions, BleRadio, RadioEvents } from '../../drivers/bluetooth/radio'
import { CanMedium } from '../../drivers/can/medium'
import type { PeerSocket } from '../../drivers/can/peer'
import { createLora } from '../../drivers/lora'
import { rs485Driver } from '../../drivers/rs485'
import { iwipDriver, uipDriver } from '../../drivers/slip'
import { uartDriver } from '../../drivers/uart'
import type { Clock } from '../../src/lib/clock'
import { silentLogger } from '../../src/lib/logger'
import { systemTimers, type Timers } from '../../src/lib/timers'
import type { Medium, MediumDriver } from '../../src/links/contracts'
import { createQuic } from '../../src/media/quic'
import { udpDriver } from '../../src/media/udp'
import { AGAIN, READABLE, WRITABLE } from '../../src/native'
import type { CanLink } from '../../src/native/can-link'
import { UplinkEncoder } from '../../src/pipeline/sender'
import { wireUnits } from '../../src/units/wire'
import { makeCerts } from '../../test/lib/certs'
import { ManualClock, ManualTimers } from '../../test/lib/manual'
import { FakeAir, FakeChip } from '../../test/unit/drivers/lora/fake'

interface Pair {
  readonly sends: Medium
  readonly hears: Medium
  readonly packets: number
  end?(): void
}

const [medium, dir, profiled] = process.argv.slice(2) as [string, string, string?]
const PACKETS = 2000
/** passes of half as many packets before the measurement */
const WARM = 6
/** how much faster than ours the time of the radio runs: a packet is on the air for a twentieth of a second */
const HASTE = 25
const clock: Clock = { mono: () => performance.now(), wall: () => Date.now() }
const context = { clock, logger: silentLogger }
const pause = (ms: number): Promise<void> => new Promise(resolve => setTimeout(resolve, ms))

async function until(what: string, check: () => boolean): Promise<void> {
  for (const end = Date.now() + 20_000; !check(); await pause(20))
    if (Date.now() > end) throw new Error(`${what}: not within 20 s`)
}

/** Two ends of ISO-TP: a packet of one is there for the other in the next turn of the event loop. */
function canSockets(): [PeerSocket, PeerSocket] {
  const ends = [0, 1].map(() => ({
    inbox: new Uint8Array(4096),
    length: 0,
    wake: (_events: number): void => undefined,
    other: undefined as unknown as PeerSocket & { arrived(packet: Uint8Array): void },
    dropped: 0,
    arrived(packet: Uint8Array): void {
      this.inbox.set(packet)
      this.length = packet.length
      setImmediate(this.told)
    },
    told: (): void => undefined,
    sent: (): void => undefined,
    send(packet: Uint8Array): number {
      this.other.arrived(packet)
      setImmediate(this.sent)
      return packet.length
    },
    receive(slab: Uint8Array, lengths: Uint32Array): number {
      if (this.length === 0) return AGAIN
      slab.set(this.inbox.subarray(0, this.length))
      lengths[0] = this.length
      this.length = 0
      return 1
    },
    error: () => 0,
    watch(_events: number, wake: (events: number) => void): void {
      this.told = () => wake(READABLE)
      this.sent = () => wake(WRITABLE)
    },
    rewatch: () => undefined,
    close: () => undefined,
  }))
  const [a, b] = ends as [(typeof ends)[0], (typeof ends)[0]]
  a.other = b
  b.other = a
  return [a, b]
}

function can(): Pair {
  const sockets = canSockets()
  const link = { up: true, running: true, fd: false, kind: 'can', state: 'error-active', tx_errors: 0 } as CanLink
  const [sends, hears] = (['send', 'listen'] as const).map((mode, k) => {
    const ids = [{ tx_id: 0x700 + k, rx_id: 0x701 - k, fd: false, block_size: 0, separation_us: 0 }]
    const options = { mode, interface: 'can0', peers: ids, max_packet: 4095, send_timeout_ms: 5000 }
    const edges = {
      link: () => link,
      errors: () => ({ receive: () => AGAIN, watch: () => undefined, close: () => undefined }),
      changes: () => ({ close: () => undefined }),
    }
    return new CanMedium(mode, options as never, { ...context, edges, openSocket: () => sockets[k]! })
  })
  return { sends: sends!, hears: hears!, packets: PACKETS }
}

/**
 * Two radios of registers in memory, by a clock that runs faster; for a profile by one that does not wait at all, since a sampling profiler does
 * not see work between two waits that is shorter than its interval.
 */
function lora(): Pair {
  let fast: Clock = { mono: () => performance.now() * HASTE, wall: () => Date.now() }
  let timers: Timers & { clock: Clock } = { clock: fast, after: (ms, run) => systemTimers.after(ms / HASTE, run) }
  if (profiled) {
    const manual = new ManualTimers(new ManualClock())
    timers = manual
    fast = manual.clock
    const go = (): void => void manual.advance(1000).then(go)
    go()
  }
  const air = new FakeAir(timers as unknown as ManualTimers)
  const [sends, hears] = (['send', 'listen'] as const).map(mode => {
    const wiring = { spi: `/dev/spidev-${mode}`, dio0_pin: { pin: 'GPIO25' }, reset_pin: { pin: 'GPIO17' } }
    const options = { mode, ...wiring, region: 'none', frequency_hz: 433_500_000, check_interval_ms: 60_000 }
    return createLora(mode, options, { ...context, clock: fast }, { hardware: new FakeChip(air), timers })
  })
  return { sends: sends!, hears: hears!, packets: 200 }
}

/** Two centrals, and between them a device that notifies one of what the other writes. */
function bluetooth(): Pair {
  const peers: BleConnectOptions[] = []
  const [sends, hears] = (['send', 'listen'] as const).map((mode, k) => {
    let events: RadioEvents | undefined
    const address = 'a4:c1:38:8d:18:b2'
    const radio: BleRadio = {
      detail: {},
      open: async given => {
        events = given
      },
      close: async () => undefined,
      startScan: async () =>
        void setImmediate(() => events!.report({ address, addressType: 'public', data: new Uint8Array(0), rssi: -50 })),
      stopScan: async () => undefined,
      reset: async () => true,
      connect: async options => {
        peers[k] = options
        const write = async (bytes: Uint8Array): Promise<void> => peers[1 - k]?.onData(bytes)
        const writes = { withResponse: true, withoutResponse: true }
        return { mtu: 247, rssi: -50, writes, write, disconnect: () => undefined }
      },
    }
    const adapter = new Adapter({ name: `hci${k}`, radio, timers: systemTimers, ...context })
    return createBluetooth(mode, { mode, peers: [address] }, context, { adapter })
  })
  return { sends: sends!, hears: hears!, packets: PACKETS }
}

type Driver = Pick<MediumDriver, 'create'>

/** A sender and a receiver of a serial driver, on two pseudo-terminals that socat joins. */
async function onLine(dir: string, driver: Driver, own: (k: number, port: string) => object): Promise<Pair> {
  const ends = ['a', 'b'].map(name => join(dir, name))
  const socat = spawn(
    'socat',
    ends.map(link => `pty,rawer,link=${link}`),
  )
  await until('pseudo-terminals', () => ends.every(existsSync))
  const [sends, hears] = (['send', 'listen'] as const).map((mode, k) =>
    driver.create(mode, { mode, baudrate: 4_000_000, ...own(k, ends[k]!) }, context),
  )
  return { sends: sends!, hears: hears!, packets: PACKETS, end: () => void socat.kill() }
}

const serial = (dir: string): Promise<Pair> => onLine(dir, uartDriver, (_, port) => ({ port }))
const uip = (dir: string): Promise<Pair> =>
  onLine(dir, uipDriver, (k, device) => ({ device, address: `10.0.0.${k + 1}`, host: '10.0.0.2', port: 7000 }))
/** Both ends keep the silence before they send. */
const rs485 = async (dir: string): Promise<Pair> => ({
  ...(await onLine(dir, rs485Driver, (_, port) => ({ port, direction: 'auto_hardware', turnaround_ms: 0 }))),
  packets: 400,
})

/** Without a serial line it is UDP with packets bounded by the MTU. */
async function iwip(): Promise<Pair> {
  const driver = iwipDriver(udpDriver)
  const socket = createSocket('udp4').bind(0, '127.0.0.1')
  await once(socket, 'listening')
  const { port } = socket.address()
  socket.close()
  const sends = driver.create('send', { mode: 'send', host: '127.0.0.1', port }, context)
  const hears = driver.create('listen', { mode: 'listen', listen_host: '127.0.0.1', port }, context)
  return { sends, hears, packets: PACKETS }
}

async function quic(dir: string): Promise<Pair> {
  const { ca, serverCert: cert, serverKey: key } = makeCerts(dir)
  const hears = createQuic('hears', { mode: 'listen', listen_host: '127.0.0.1', port: 0, tls: { cert, key } }, context)
  await hears.open({ lost: reason => console.error(reason), degraded: () => undefined })
  const { port } = hears as unknown as { port: number }
  return { sends: createQuic('sends', { host: 'localhost', port, tls: { ca } }, context), hears, packets: PACKETS }
}

const MEDIA: Readonly<Record<string, (dir: string) => Pair | Promise<Pair>>> = {
  serial,
  rs485,
  uip,
  iwip,
  can,
  lora,
  bluetooth,
  quic,
}

/** Frames of one node, four sensors, all values changing. */
function frames(count: number): Buffer[] {
  const uplink = new UplinkEncoder({ aid: 4711, units: wireUnits(), diffBase: 'last', fullEvery: 0, fullIntervalS: 0 })
  return Array.from({ length: count }, (_, k) => {
    const value = 293.15 + ((k * 7919) % 1e5) / 1e4
    const sensors = ['K', 'Pa', 'A', '%'].map((unit, n) => ({ id: `t${n}`, status: 'OK', unit, value: value + n }))
    return Buffer.from(
      uplink.encode({ id: 'node', state: 'ONLINE', tRaw: 1.71e12 + k, aid: 4711, sensors } as never).bytes,
    )
  })
}

const pair = await MEDIA[medium]!(dir)
let heard = 0
pair.hears.onPacket(() => heard++)
for (const end of [pair.hears, pair.sends])
  if (medium !== 'quic' || end === pair.sends)
    await end.open({ lost: reason => console.error(`${medium}: ${reason}`), degraded: () => undefined })

const packets = frames(64)
async function pass(count: number, least = count): Promise<void> {
  const due = heard + least
  for (let k = 0; k < count; k++)
    while (!(await pair.sends.send(packets[k % packets.length]!))) {
      if (medium !== 'quic') throw new Error(`${medium}: a packet was not sent`)
      // its queue is full
      await pause(1)
    }
  await until(`${least} packets`, () => heard >= due)
}

// what V8 and a medium make with the first packets, compiled code above all, is not counted
for (let k = 0; k < WARM; k++) await pass(pair.packets / 2)
if (profiled) {
  // as many passes as take this processor time, since most media wait more than they work; a serial line may lose packets on a busy machine
  const spend = async (most: number): Promise<object> => {
    const from = heard
    const [began, waited] = [process.cpuUsage(), process.resourceUsage().voluntaryContextSwitches]
    const end = clock.mono() + 20_000
    let spent = { user: 0, system: 0 }
    while (spent.user + spent.system < most && clock.mono() < end) {
      await pass(pair.packets, 0.9 * pair.packets)
      spent = process.cpuUsage(began)
    }
    const waits = process.resourceUsage().voluntaryContextSwitches - waited
    const count = heard - from
    return { user: spent.user / count, system: spent.system / count, waits: waits / count }
  }
  const costs = await spend(500_000)
  const session = new Session()
  session.connect()
  await session.post('Profiler.enable')
  await session.post('Profiler.setSamplingInterval', { interval: 200 })
  await session.post('Profiler.start')
  await spend(3_000_000)
  const { profile } = await session.post('Profiler.stop')
  writeFileSync(join(dir, 'profile.json'), JSON.stringify({ profile, ...costs }))
  pair.end?.()
  process.exit(0)
}
let collections = 0
globalThis.gc!()
await pause(100)
new PerformanceObserver(list => {
  collections += list.getEntries().length
}).observe({ entryTypes: ['gc'] })
const before = process.memoryUsage().heapUsed
await pass(pair.packets)
const bytes = Math.round((process.memoryUsage().heapUsed - before) / pair.packets)
await pause(50)
console.log(JSON.stringify({ bytes, packets: heard, collections }))
pair.end?.()
process.exit(0)
