// The output of the hardware-independent parts of the drivers for valid, rare and damaged input, compared with
// drivers-trace.txt: files, lines, frames and registers go in, values and refusals come out.
import { after, test } from 'node:test'
import { BthomeDecoder } from '../../../drivers/bluetooth/bthome'
import { EddystoneDecoder } from '../../../drivers/bluetooth/eddystone'
import { IbeaconDecoder } from '../../../drivers/bluetooth/ibeacon'
import { RuuviDecoder } from '../../../drivers/bluetooth/ruuvi'
import { bootConfigOf } from '../../../drivers/board/bootconfig'
import { separation } from '../../../drivers/can/medium'
import { MessageDecoder } from '../../../drivers/can/signals/codec'
import { parsingDbc } from '../../../drivers/can/signals/dbc'
import { destinationOf, indicators, pgnMask, pgnOf } from '../../../drivers/can/signals/j1939'
import { unitOf } from '../../../drivers/can/signals/plan'
import { dbcText, Tokens } from '../../../drivers/can/signals/tokens'
import { Debounce } from '../../../drivers/gpio/debounce'
import { Frequency } from '../../../drivers/gpio/frequency'
import * as host from '../../../drivers/host/codec'
import { parseW1 } from '../../../drivers/host/w1'
import * as ina219 from '../../../drivers/i2c/ina219'
import { checkedEnd } from '../../../drivers/lines/checksum'
import { NmeaReader, transducerUnit } from '../../../drivers/lines/nmea'
import { groupsOf, numberOf } from '../../../drivers/lines/pattern'
import { LineSplitter } from '../../../drivers/lines/splitter'
import { airtimeMs, bytesWithin } from '../../../drivers/lora/airtime'
import { BANDWIDTHS_KHZ, loraOptions } from '../../../drivers/lora/lora-options'
import {
  currentRegister,
  frequencyError,
  frfRegisters,
  modemOf,
  packetRssi,
  powerRegisters,
  strictBits,
} from '../../../drivers/lora/modem'
import { bandOf, narrowRule, REGIONS, usualFrequency } from '../../../drivers/lora/region'
import { crcRtu, findRtu, frameRtu, frameTcp, judge, nextTcp, readRequest } from '../../../drivers/modbus/codec'
import { plan } from '../../../drivers/modbus/plan'
import { numberAt, TYPES, WORD_ORDERS } from '../../../drivers/modbus/values'
import * as slip from '../../../drivers/slip/codec'
import { inTurns } from '../../../src/lib/slices'
import { checkOptions } from '../../../src/links/driver-options'
import { parseDbc } from '../../lib/dbc'
import { dice, Trace } from '../../lib/trace'

const trace = new Trace('unit/drivers/drivers-trace.txt')
after(() => trace.compare())

const { below, chance, pick, text } = dice(41)
const noise = (most: number): Buffer => Buffer.from(Array.from({ length: below(most + 1) }, () => below(256)))
/** Bytes or characters changed, removed or doubled, sometimes none. */
function damaged(bytes: Uint8Array): Buffer {
  const out = Buffer.from(bytes)
  for (let n = below(4); n > 0 && out.length > 0; n--) out[below(out.length)] = below(256)
  const cut = chance(0.3) ? below(out.length + 1) : out.length
  return chance(0.1) ? Buffer.concat([out, out.subarray(0, cut)]) : out.subarray(0, cut)
}
function rearranged(line: string): string {
  let out = line
  for (let n = below(4); n > 0; n--) {
    const at = below(out.length + 1)
    out =
      out.slice(0, at) +
      pick(['', ' ', ',', '"', ';', '\n', '0', '-1', '.', 'x', 'ü', '//', '\\"']) +
      out.slice(at + below(3))
  }
  return out
}

const DBC = `BU_: A
BO_ 291 Basics: 8 Engine
 SG_ Coolant : 7|16@0- (0.1,-40) [-40|215] "degC"  Dash,Logger
 SG_ Mode M : 16|4@1+ (1,0) [0|15] "" X
 SG_ Gear m1 : 28|3@1+ (1,0) [0|7] "" X
 SG_ Load m2 : 32|32@1- (1E+000,0) [0|0] "%" X
BO_ 2364540158 EEC1: 8 Engine
 SG_ EngSpeed : 24|16@1+ (0.125,0) [0|8031.875] "rpm" X
CM_ "a comment with a \\"quote\\"; and";
BA_DEF_ BO_  "VFrameFormat" ENUM  "StandardCAN","ExtendedCAN","reserved","J1939PG";
BA_DEF_DEF_  "VFrameFormat" "StandardCAN";
BA_ "VFrameFormat" BO_ 2364540158 3;
BA_ "Folder" "C:\\files\\";
VAL_TABLE_ OnOff 1 "On" 0 "Off" ;
VAL_ 291 Gear 0 "Neutral" 1 "First" 7 "Not \\"available\\"" ;
SIG_VALTYPE_ 291 Load : 1;
SG_MUL_VAL_ 291 Gear Mode 1-1, 5-9;
`

test('DBC files, and the frames they describe, decode as drivers-trace.txt has it', async () => {
  trace.course('words', 300, 50, () => {
    const tokens = new Tokens(
      rearranged(pick(DBC.split('\n'))) +
        pick(['', '"', '";', '";\r\n', '//', '\n+.5 -3 #', 'x'.repeat(600), '1'.repeat(513)]),
    )
    const seen: unknown[] = []
    while (tokens.kind !== 'end' && seen.length < 40) {
      seen.push([tokens.kind, tokens.text, tokens.line, tokens.lineBefore])
      tokens.next()
    }
    return [seen, tokens.lineBefore, tokens.take('x'), tokens.wrong('y').message]
  })
  trace.course('files', 150, 25, () => {
    const { messages, problems } = parseDbc(rearranged(rearranged(DBC)))
    const read: unknown[] = []
    for (const message of messages) {
      const places = new Map(message.signals.map(({ name }, k) => [name, k]))
      const decoder = new MessageDecoder(message, places, { j1939: chance(0.5), checkRange: chance(0.5) })
      for (let k = 0; k < 4; k++)
        decoder.decode(
          Buffer.from(Array.from({ length: pick([8, 8, 4]) }, () => pick([0, 1, 2, 255, below(256)]))),
          (...got) => read.push(got),
        )
      read.push(decoder.short)
    }
    return [messages, problems, read]
  })
  const many = Array.from({ length: 100 }, (_, k) => `BO_ ${k} M${k}: 8 X\nBO_ ${k} twice: 8 X\n`).join('')
  trace.say('many', [parseDbc(many).problems, (await inTurns(parsingDbc(many))).messages.length])
  trace.course('small', 200, 50, () => {
    const id = below(2 ** 29)
    return [
      pgnOf(id),
      destinationOf(id),
      pgnMask(id >> 8),
      indicators(1 + below(64)),
      separation(below(1500)),
      unitOf(text('degCkm/h°%ΩrpN ', 5)),
      dbcText(noise(6)),
    ]
  })
})

test('registers and frames of Modbus, SLIP and LoRa decode as drivers-trace.txt has it', () => {
  trace.course('modbus', 500, 100, () => {
    const places = Array.from({ length: below(6) }, () => ({
      table: pick(['coil', 'discrete', 'input', 'holding'] as const),
      address: pick([below(20), below(300), 65_530]),
      type: pick(TYPES),
    }))
    const blocks = plan(places, { gap: pick([0, 3]), most: pick([4, 125]) })
    const request = readRequest(pick(['coil', 'input', 'holding'] as const), below(300), 1 + below(9))
    const answer = damaged(
      Buffer.concat([Buffer.of(request[0]! | (chance(0.2) ? 0x80 : 0), pick([2, 4, 6, 18])), noise(20)]),
    )
    const wire = Buffer.concat([
      chance(0.3) ? noise(5) : Buffer.alloc(0),
      chance(0.2) ? frameRtu(7, request) : Buffer.alloc(0),
      damaged(frameRtu(7, answer)),
    ])
    const tcp = damaged(frameTcp(below(65_536), 7, answer))
    const bytes = Buffer.concat([noise(8), Buffer.alloc(9, pick([0, 0x99, 255, 18]))])
    return [
      blocks,
      judge(request, answer),
      crcRtu(wire),
      findRtu(wire, wire.length, 7, request),
      nextTcp(tcp, tcp.length),
      TYPES.map(type => String(numberAt(bytes, pick([0, 1]), type, pick(WORD_ORDERS), below(16)))),
    ]
  })
  let frames = 0
  const decoder = new slip.SlipDecoder(60, frame => (frames += frame.length))
  trace.course('slip', 500, 100, () => {
    const out = new Uint8Array(200)
    const own = 0x0a000001
    const size = chance(0.7)
      ? slip.encodeUdp(
          noise(30),
          { ip: 0x0a000002, port: below(65_536) },
          { ip: pick([own, own + 5, 0xffffffff]), port: 5 },
          below(65_536),
          out,
        )
      : slip.encodeEchoReply(Buffer.concat([Buffer.of(8, 0, 0, 0), noise(9)]), own, own, 3, out)
    const datagram = chance(0.5) ? out.slice(0, size) : damaged(out.slice(0, size))
    const line = new Uint8Array(slip.slipSize(datagram.length))
    decoder.push(damaged(line.subarray(0, slip.encodeSlip(datagram, line))))
    if (chance(0.05)) decoder.damaged()
    if (chance(0.05)) decoder.reset()
    return [
      Buffer.from(out.subarray(0, size)).toString('hex'),
      slip.decode(datagram, own),
      frames,
      decoder.broken,
      slip.parseIp(text('0129.', 9)),
      slip.ipText(below(2 ** 32)),
    ]
  })
  trace.course('lora', 400, 100, () => {
    const of = {
      spreadingFactor: 6 + below(7),
      bandwidthHz: pick([7800, 125_000, 500_000]),
      codingRate: 1 + below(4),
      preambleSymbols: 6 + below(9),
      crc: chance(0.5),
      implicitHeader: chance(0.3),
      lowDataRate: chance(0.5),
    }
    const region = pick(REGIONS)
    const rule = (): unknown =>
      region === 'none'
        ? null
        : bandOf(region, usualFrequency(region) + below(8e6) - 4e6, pick([125_000, 500_000]), chance(0.5))
    const registers = [
      outcomeOf(() => powerRegisters(below(28) - 6, pick(['PA_BOOST', 'RFO'] as const))),
      currentRegister(45 + below(196)),
      frfRegisters(below(2 ** 24)),
      strictBits(below(256), chance(0.5)),
      packetRssi(below(256), below(40) - 20, chance(0.5)),
      frequencyError(below(256), below(256), below(256), 125_000),
    ]
    return [
      String(airtimeMs(below(256), of)),
      bytesWithin(below(3000), of),
      narrowRule(region, pick([7800, 125_000])),
      registers,
      outcomeOf(rule),
    ]
  })
})

/** A value, or the message of the error. */
function outcomeOf(run: () => unknown): unknown {
  try {
    return run()
  } catch (error) {
    return (error as Error).message
  }
}

const NMEA = [
  '$GPGGA,123519.5,4807.038,N,01131.000,W,1,08,0.9,545.4,M,46.9,M,,',
  '$GNRMC,123519,A,4807.038,S,01131.000,E,022.4,084.4,230394,003.1,W,A,V',
  '$GPGSV,3,1,11,03,03,111,00',
  '$GLGSV,1,1,05',
  '$GPGSA,A,3,04,05,,,,,2.5,1.3,2.1',
  '$GPVTG,54.7,T,34.4,M,5.5,N,10.2,K,A',
  '$WIMWV,214.8,R,0.1,K,A',
  '$WIMDA,30.1,I,1.01,B,20.1,C,,,50.1,,9.2,C,,T,,M,3.1,N,1.6,M',
  '$WIXDR,C,20.5,C,TEMP,P,1.01,B,PRES,H,55,P,HUM',
  '$SDDPT,3.4,0.5',
  '$SDDBT,11,f,3.4,M,1.8,F',
  '$HCHDG,98.3,0.0,E,12.6,W',
  '$HEHDT,98.3,T',
  '$VWVHW,1,T,2,M,3.5,N,6.5,K',
  '$YXMTW,17.5,C',
  '$GPZDA,201530,04,07,2002,00,00',
  '$WIMWD,1,T,2,M,3,N,1.5,M',
  '$IIROT,3.5,A',
  '$IIRSA,10.5,A,,V',
  '$GPGLL,4807.0,N,01131.0,E,1,A',
]

test('lines, advertisements and files of the kernel decode as drivers-trace.txt has it', () => {
  const lines: string[] = []
  const splitters = ['\n', ';;', '\r\n'].map(
    end => new LineSplitter(Buffer.from(end), 20, line => lines.push(Buffer.from(line).toString('hex'))),
  )
  const reader = new NmeaReader()
  trace.course('nmea', 900, 100, k => {
    const seen: unknown[] = []
    const sink = new Proxy(
      {},
      {
        get:
          (_, name) =>
          (...args: unknown[]) => {
            seen.push([name, args])
          },
      },
    )
    const line = chance(0.4) ? pick(NMEA) : rearranged(pick(NMEA))
    const known = reader.read(
      chance(0.1) ? line.replace(/^...../, `$G${pick(['A', 'B', 'L', 'P', 'Q'])}GSV`) : line,
      sink as never,
      k * 700,
    )
    const sum = [...line.slice(1)]
      .reduce((x, c) => x ^ c.charCodeAt(0), 0)
      .toString(16)
      .padStart(2, '0')
    const full = Buffer.from(`${line}*${chance(0.8) ? sum.toUpperCase() : text('09aF', 2)}`)
    const splitter = pick(splitters)
    splitter.push(Buffer.from(text('ab\n;\r', 30)))
    return [
      known,
      seen,
      checkedEnd(full, pick(['none', 'nmea', 'xor'] as const), chance(0.5)),
      transducerUnit(text('CPHVE', 1), text('CBPML', 1)),
      lines.splice(0),
      splitter.tooLong,
      numberOf(text('0123.,-+eExX a', 6), { base: pick([10, 16]), words: { a: 1 } }),
    ]
  })
  trace.say('groups', groupsOf('(?<a>\\d)(?<b>x)|(?<c>y)'))
  const formats = [
    new BthomeDecoder(),
    new EddystoneDecoder(),
    new IbeaconDecoder({ uuid: 'e2c56db5dffb48d2b060d0f5a71096e0' }, 2),
    new RuuviDecoder(),
  ]
  const adverts = [
    '0201060b094449592d73656e736f720a16d2fc4002c40903bf13',
    '02010612ff9904050012fc5394c37c0004fffc040cac',
    '0201061aff4c000215e2c56db5dffb48d2b060d0f5a71096e000010002c5',
    '020106030 3aafe11 16aafe200 00bb81640000012300000456'.replaceAll(' ', ''),
    '0201060c16d2fc44003a013c0205453c00',
    '02010615ff990403291a1ece1efc18f94202ca0b530000000000',
  ]
  trace.course('advertisements', 1200, 200, k => {
    const data = Buffer.from(pick(adverts), 'hex')
    if (chance(0.7))
      for (let n = 1 + below(4); n > 0; n--) data[7 + below(data.length - 7)] = pick([below(256), below(100), 255])
    const seen: unknown[] = []
    return [
      formats.map(one =>
        outcomeOf(() =>
          one.decode(data, '54:48:e6:8f:80:a5', pick([null, -60]), k * 300, (...got) => {
            seen.push(got)
          }),
        ),
      ),
      seen,
    ]
  })
  const files = [
    'cpu  100 5 30 800 20 3 4 0 0 0\ncpu0 1 2 3 4\n',
    '0.20 0.18 0.12 1/80 11206',
    '350735.47 234388.90',
    'MemTotal:  1000 kB\nMemFree: 200 kB\nMemAvailable: 500 kB\nBuffers: 20 kB\nCached: 100 kB\nSwapTotal: 50 kB\nSwapFree: 40 kB\n',
    'Inter-|   Receive\n face |bytes packets\n  eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n    lo: 5 6 7 8 0 0 0 0 1 2 3 4 0 0 0 0\n',
    '72 01 4b 46 7f ff 0e 10 57 : crc=57 YES\n72 01 4b 46 7f ff 0e 10 57 t=23125\n',
    'dtparam=i2c_arm=on\n[pi4]\ndtoverlay=spi1-1cs,a=b # x\n[all]\ndtoverlay=\n[none]\nenable_uart=1\n',
  ]
  trace.course('files', 800, 100, () => {
    const file = rearranged(pick(files))
    const [before, now] = [host.parseCpu(files[0]!), host.parseCpu(file)]
    const names = ['eth0', 'veth1', 'docker0', 'br-1', 'temp10', 'temp9', 'wlan0']
    return [
      now && before && host.busyPercent(before, now),
      host.parseLoad(file),
      host.parseUptime(file),
      host.parseMemory(file),
      [...host.parseNetDev(file)],
      outcomeOf(() => parseW1(file)),
      bootConfigOf(file, ['pi4', 'all']),
      host.isVirtualInterface(pick(names)),
      Math.sign(host.naturalOrder(pick(names), pick(names))),
      host.oneNumber(text(' 0123.-x', 5)),
    ]
  })
  trace.course('gpio and i2c', 300, 100, () => {
    const debounce = new Debounce(pick([5, 20]), pick([0, 1]))
    const meter = new Frequency({ windowNs: pick([0, 40]), timeoutNs: 100 })
    let ns = 0
    const seen = Array.from({ length: 20 }, (_, k) => {
      ns += below(30)
      if (chance(0.7)) meter.edge(k + 1, ns)
      if (chance(0.05)) meter.reset()
      return [debounce.edge(pick([0, 1]), ns), debounce.settle(ns + below(30)), debounce.level, meter.at(ns)]
    })
    const bytes = Buffer.of(below(256), below(256))
    return [
      seen,
      outcomeOf(() => ina219.calibrate({ shuntOhm: pick([0.1, 0.01, 1]), maxA: pick([0.1, 2, 3.2, 40]) })),
      ina219.shuntVolts(bytes),
      ina219.busVolts(bytes),
      ina219.watts(bytes, 0.001),
      ina219.overflowed(bytes),
    ]
  })
})

test('the registers of LoRa modems are as drivers-trace.txt has it', () => {
  trace.course('modem', 300, 50, () => {
    const options = checkOptions(
      loraOptions,
      {
        region: pick(REGIONS),
        chip: pick(['sx1276', 'sx1277', 'sx1278', 'sx1279']),
        ...(chance(0.4) && { frequency_hz: pick([434e6, 433.175e6, 868.1e6, 869.525e6, 915e6, 1e9]) }),
        bandwidth_khz: pick(BANDWIDTHS_KHZ),
        spreading_factor: 6 + below(7),
        coding_rate: pick(['4/5', '4/8']),
        ...(chance(0.4) && { implicit_bytes: 2 + below(250) }),
        crc: chance(0.5),
        low_data_rate: pick(['auto', 'on', 'off']),
        invert_iq: chance(0.3),
        power_dbm: below(25) - 4,
        power_pin: pick(['PA_BOOST', 'RFO']),
        antenna_gain_dbi: pick([-20, 0, 2]),
        lna_gain: below(7),
        fixed_channel_allowed: chance(0.5),
      },
      'm',
    )
    const modem = modemOf(options as never)
    return [modem, modem.airtime(20)]
  })
})
