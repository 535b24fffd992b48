// LoRa's pure parts against the data sheet's tables and examples, and published airtimes.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type AirSettings, airtimeMs, bytesWithin, symbolMs } from '../../../../drivers/lora/airtime'
import { explained } from '../../../../drivers/lora/hardware'
import { type LoraOptions, loraOptions } from '../../../../drivers/lora/lora-options'
import {
  currentRegister,
  frequencyError,
  frequencyWord,
  modemOf,
  packetRssi,
  packetSnr,
  powerRegisters,
} from '../../../../drivers/lora/modem'
import { MOST_WAITING, RadioQueue } from '../../../../drivers/lora/queue'
import { BANDS, bandOf, REGIONS, type Region, usualFrequency } from '../../../../drivers/lora/region'
import { REG } from '../../../../drivers/lora/registers'
import { type ErrorCode, OsError } from '../../../../src/lib/errors'
import { checkOptions } from '../../../../src/links/driver-options'
import { COMMAND } from '../../../../src/wire/commands'

const settings = (raw: Record<string, unknown> = {}): LoraOptions =>
  checkOptions(loraOptions, raw, 'test') as LoraOptions
const registers = (raw: Record<string, unknown> = {}): Map<number, number> => new Map(modemOf(settings(raw)).registers)
const refused = (raw: Record<string, unknown>, pattern: RegExp): void =>
  assert.throws(
    () => modemOf(settings(raw)),
    error => error instanceof OsError && error.code === 'CONFIG_INVALID' && pattern.test(error.message),
  )

const air = (spreadingFactor: number, more: Partial<AirSettings> = {}): AirSettings => ({
  spreadingFactor,
  bandwidthHz: 125_000,
  codingRate: 1,
  preambleSymbols: 8,
  implicitHeader: false,
  crc: true,
  lowDataRate: spreadingFactor > 10,
  ...more,
})

test('airtime: the published times of 23 bytes at 125 kHz, and of others, are computed', () => {
  // The Things Network's table for 13 bytes of header and 10 of payload
  for (const [sf, ms] of [
    [7, 61.7],
    [8, 113.2],
    [9, 205.8],
    [10, 370.7],
    [11, 823.3],
    [12, 1482.8],
  ] as const)
    assert.equal(Math.round(airtimeMs(23, air(sf)) * 10) / 10, ms, `SF${sf}`)
  // by hand: SF7 12.25 + 8 + ceil((80 - 28 + 28 + 16) / 28) * 5 = 40.25 symbols of 1.024 ms
  assert.ok(Math.abs(airtimeMs(10, air(7)) - 41.216) < 1e-9)
  // SF6 implicit, no checksum, 4/8, 500 kHz: 12.25 + 8 + ceil((160 - 24 + 28 - 20) / 24) * 8 = 68.25 symbols of 0.128 ms
  const six = air(6, { implicitHeader: true, crc: false, codingRate: 4, bandwidthHz: 500_000 })
  assert.ok(Math.abs(airtimeMs(20, six) - 8.736) < 1e-9)
  assert.equal(airtimeMs(0, air(12, { crc: false, implicitHeader: true })), (12.25 + 8) * 32.768)
  assert.equal(symbolMs(12, 125_000), 32.768)
})

test('the largest packet within an airtime is computed', () => {
  for (const ms of [60, 100, 400]) {
    const bytes = bytesWithin(ms, air(8))
    assert.ok(airtimeMs(bytes, air(8)) <= ms && airtimeMs(bytes + 1, air(8)) > ms)
  }
  assert.equal(bytesWithin(10_000, air(7)), 255)
  assert.equal(bytesWithin(1, air(7)), 0)
})

test('frequency words match the data sheet and standard channels', () => {
  assert.equal(frequencyWord(434_000_000), 0x6c8000)
  assert.equal(frequencyWord(868_000_000), 0xd90000)
  assert.equal(frequencyWord(868_100_000), 0xd90666)
  assert.equal(frequencyWord(915_000_000), 0xe4c000)
})

test('settings are converted to register values', () => {
  const usual = registers()
  assert.equal(usual.get(REG.MODEM_CONFIG_1), 0x72)
  assert.equal(usual.get(REG.MODEM_CONFIG_2), 0x74)
  assert.equal(usual.get(REG.MODEM_CONFIG_3), 0x04)
  assert.deepEqual(
    [REG.FRF_MSB, 7, 8].map(at => usual.get(at)),
    [0xd9, 0x06, 0x66],
  )
  assert.equal(usual.get(REG.DETECT_OPTIMIZE), 0x43)
  assert.equal(usual.get(REG.DETECTION_THRESHOLD), 0x0a)
  assert.equal(usual.get(REG.SYNC_WORD), 0x12)
  assert.equal(usual.get(REG.LNA), 0x23)
  assert.deepEqual([usual.get(REG.INVERT_IQ), usual.get(REG.INVERT_IQ_2)], [0x27, 0x1d])
  const slow = registers({ spreading_factor: 12, coding_rate: '4/8', preamble_symbols: 300, lna_gain: 3, crc: false })
  assert.equal(slow.get(REG.MODEM_CONFIG_1), 0x78)
  assert.equal(slow.get(REG.MODEM_CONFIG_2), 0xc0)
  assert.equal(slow.get(REG.MODEM_CONFIG_3), 0x08, 'low data rate, fixed gain')
  assert.deepEqual([slow.get(REG.PREAMBLE_MSB), slow.get(REG.PREAMBLE_LSB)], [1, 44])
  assert.equal(slow.get(REG.LNA), 0x63)
  const six = registers({ spreading_factor: 6, implicit_bytes: 64, invert_iq: true, sync_word: 0x34 })
  assert.equal(six.get(REG.MODEM_CONFIG_1), 0x73)
  assert.deepEqual([six.get(REG.DETECT_OPTIMIZE), six.get(REG.DETECTION_THRESHOLD)], [0x45, 0x0c])
  assert.deepEqual([six.get(REG.INVERT_IQ), six.get(REG.INVERT_IQ_2), six.get(REG.SYNC_WORD)], [0x66, 0x19, 0x34])
})

test('errata are applied: 500 kHz, and the receiver offset below 62.5 kHz', () => {
  const none = { region: 'none' }
  const high = registers({ ...none, bandwidth_khz: 500 })
  assert.deepEqual([high.get(0x36), high.get(0x3a), high.get(0x31), high.get(0x2f)], [0x02, 0x64, 0xc3, undefined])
  const low = registers({ ...none, bandwidth_khz: 500, frequency_hz: 433_500_000 })
  assert.deepEqual([low.get(0x36), low.get(0x3a)], [0x02, 0x7f])
  for (const [bandwidth_khz, ifFreq, off] of [
    [7.8, 0x48, 7812.5],
    [20.8, 0x44, 20_833.3],
    [41.7, 0x44, 41_666.7],
    [62.5, 0x40, 0],
    [250, 0x40, 0],
  ] as const) {
    const modem = modemOf(settings({ ...none, bandwidth_khz }))
    const written = new Map(modem.registers)
    assert.deepEqual([written.get(0x2f), written.get(0x30), written.get(0x31)], [ifFreq, 0, 0x43])
    assert.equal(modem.rxFrf - modem.txFrf, frequencyWord(868_100_000 + off) - frequencyWord(868_100_000))
    assert.equal(written.get(0x36), 0x03)
  }
})

test('power, current, signal, noise and frequency offset are as in the data sheet', () => {
  assert.deepEqual(powerRegisters(2, 'PA_BOOST'), { config: 0xf0, dac: 0x84 })
  assert.deepEqual(powerRegisters(17, 'PA_BOOST'), { config: 0xff, dac: 0x84 })
  assert.deepEqual(powerRegisters(20, 'PA_BOOST'), { config: 0xff, dac: 0x87 })
  assert.deepEqual(powerRegisters(14, 'RFO'), { config: 0x7e, dac: 0x84 })
  assert.deepEqual(powerRegisters(-4, 'RFO'), { config: 0x00, dac: 0x84 })
  for (const [ma, value] of [
    [45, 0x20],
    [100, 0x2b],
    [120, 0x2f],
    [140, 0x31],
    [240, 0x3b],
  ] as const)
    assert.equal(currentRegister(ma), value, `${ma} mA`)
  assert.equal(packetSnr(0x24), 9)
  assert.equal(packetSnr(0xe3), -7.25)
  assert.equal(packetRssi(90, 5, false), -61)
  assert.equal(packetRssi(30, -10, true), -144)
  assert.equal(frequencyError(0x00, 0x01, 0x00, 125_000), Math.round((256 * 2 ** 24) / 32e6 / 4))
  assert.equal(frequencyError(0x0f, 0xff, 0xff, 500_000), -1)
})

test('settings that the chip or the regulation forbids are refused with the key named', () => {
  refused({ spreading_factor: 6 }, /spreading_factor.*implicit_bytes/)
  refused({ chip: 'sx1277', spreading_factor: 10 }, /sx1277 does 6 to 9/)
  refused({ chip: 'sx1278' }, /frequency_hz: 868\.1 MHz, but the sx1278 does 137-175, 410-525/)
  refused({ power_dbm: 20 }, /22 dBm EIRP, band 868\.0-868\.6 allows 16\.15/)
  refused({ power_pin: 'RFO', power_dbm: 15, antenna_gain_dbi: 5 }, /EIRP/)
  refused({ power_dbm: 1 }, /PA_BOOST gives 2 to 20/)
  refused({ frequency_hz: 868_650_000 }, /lies in none of/)
  refused({ frequency_hz: 868_590_000 }, /a channel of 125 kHz at 868\.59 MHz lies in none/)
  refused({ region: 'US915', spreading_factor: 12, fixed_channel_allowed: true }, /at most 400 ms/)
  refused({ region: 'US915' }, /one fixed channel of 125 kHz: FCC 15\.247.*50 channels.*-1\.2 dBm/)
  refused(
    { region: 'US915', bandwidth_khz: 250 },
    /one fixed channel of 250 kHz: FCC 15\.247.*25 channels.*within 10 s/,
  )
  refused({ region: 'AU915', bandwidth_khz: 250 }, /one fixed channel of 250 kHz.*F2016L00636.*25 mW.*30\.0 dBm/)
  refused(
    { region: 'AU915', bandwidth_khz: 31.25 },
    /one fixed channel of 31\.25 kHz.*25 mW in any 3 kHz, here 24\.1 dBm/,
  )
  const narrow = { region: 'AU915', spreading_factor: 7, bandwidth_khz: 31.25, fixed_channel_allowed: true }
  refused({ ...narrow, power_dbm: 17, antenna_gain_dbi: 8 }, /25 dBm EIRP, band 915-928 allows 24\.15/)
  refused({ implicit_bytes: 20 }, /implicit_bytes is too small/)
  assert.equal(modemOf(settings({ frequency_hz: 869_525_000, power_dbm: 20 })).band.name, '869.4-869.65')
  assert.throws(() => settings({ bandwidth_khz: 100 }), /bandwidth_khz/)
})

test('a bus that is missing or may not be opened is reported with what to do', () => {
  const of = (code: ErrorCode): string[] => {
    const { message, hint, code: kept } = explained(new OsError(code, '/dev/spidev0.0: open E'), '/dev/spidev0.0')
    return [kept, message, hint ?? '']
  }
  assert.match(of('NOT_FOUND').join(), /^NOT_FOUND,\/dev\/spidev0\.0 is not there: SPI is not enabled.*dtparam=spi=on/)
  assert.match(of('NO_ACCESS').join(), /^NO_ACCESS,\/dev\/spidev0\.0 may not be opened.*usermod -aG spi/)
  assert.equal(of('TIMEOUT')[1], '/dev/spidev0.0: open E')
})

test('regions: the standard channel is in a band, dwell time limits the packet, wide channels are exempt', () => {
  for (const region of REGIONS) assert.ok(bandOf(region, usualFrequency(region), 125_000, true))
  const table = REGIONS.flatMap(region =>
    region === 'none' ? [] : BANDS[region].bands.map(band => [region, band] as const),
  )
  assert.deepEqual(
    table.map(([region, { fromHz, toHz, maxEirpDbm, limits, dwellMs }]) => [
      ...[region, fromHz / 1e6, toHz / 1e6, maxEirpDbm],
      ...[limits.map(({ budgetMs, windowMs }) => `${budgetMs}/${windowMs}`).join(), dwellMs],
    ]),
    [
      ['EU868', 863, 865, 16.15, '3600/3600000', Infinity],
      ['EU868', 865, 868, 16.15, '36000/3600000', Infinity],
      ['EU868', 868, 868.6, 16.15, '36000/3600000', Infinity],
      ['EU868', 868.7, 869.2, 16.15, '3600/3600000', Infinity],
      ['EU868', 869.4, 869.65, 29.15, '360000/3600000', Infinity],
      ['EU868', 869.7, 870, 16.15, '36000/3600000', Infinity],
      ['EU433', 433.05, 434.79, 12.15, '360000/3600000', Infinity],
      ['US915', 902, 928, 30, '400/20000', 400],
      ['AS923', 915, 928, 16, '36000/3600000', 400],
      ['IN865', 865, 867, 30, '', Infinity],
      ['AU915', 915, 928, 30, '400/20000', 400],
    ],
  )
  const us = modemOf(settings({ region: 'US915', spreading_factor: 9, fixed_channel_allowed: true }))
  assert.ok(us.airtime(us.maxPacket) <= 400 && us.maxPacket < 255)
  let allowed = 0
  for (const region of REGIONS.filter(name => name !== 'none'))
    for (const spreading_factor of [7, 8, 9, 10, 11, 12])
      for (const bandwidth_khz of [62.5, 125, 250, 500]) {
        const set = settings({ region, spreading_factor, bandwidth_khz, power_dbm: 10, fixed_channel_allowed: true })
        const band = bandOf(region, usualFrequency(region), 62_500, true)
        try {
          const modem = modemOf(set)
          allowed++
          const longest = Math.min(modem.band.dwellMs, ...modem.band.limits.map(({ budgetMs }) => budgetMs))
          assert.ok(modem.maxPacket >= 32 && modem.airtime(modem.maxPacket) <= longest)
          if (bandwidth_khz < 500) assert.equal(modem.band.dwellMs, band.dwellMs)
        } catch (error) {
          assert.ok(error instanceof OsError && error.code === 'CONFIG_INVALID', String(error))
        }
      }
  assert.ok(allowed > 80, `${allowed} settings may be used`)
  const wide = modemOf(settings({ region: 'US915', bandwidth_khz: 500, power_dbm: 17 }))
  assert.deepEqual([wide.maxPacket, wide.band.limits], [255, []])
})

test('FCC 15.247 and the LIPD class licence: dwell time depends on channel width, power on its density', () => {
  const of = (region: Region, khz: number) => {
    const { limits, maxEirpDbm } = bandOf(region, usualFrequency(region), khz * 1000, true)
    return [limits.map(({ budgetMs, windowMs }) => `${budgetMs}/${windowMs}`).join(), Number(maxEirpDbm.toFixed(2))]
  }
  assert.deepEqual(of('US915', 125), ['400/20000', 30])
  assert.deepEqual(of('US915', 249.9), ['400/20000', 30])
  assert.deepEqual(of('US915', 250), ['400/10000', 30])
  assert.deepEqual(of('US915', 499.9), ['400/10000', 30])
  assert.deepEqual(of('US915', 500), ['', 30])
  assert.deepEqual(of('AU915', 62.5), ['400/20000', 27.16])
  assert.deepEqual(of('AU915', 125), ['400/20000', 30])
  assert.deepEqual(of('AU915', 500), ['', 30])
  assert.deepEqual(of('AS923', 250), ['36000/3600000', 16])
})

test('above 17 dBm the chip itself allows 1 % of an hour at most, whatever the regulation allows; a stricter regulation stays', () => {
  const limits = (raw: Record<string, unknown>) =>
    modemOf(settings({ power_dbm: 20, antenna_gain_dbi: 0, ...raw })).band.limits.map(
      ({ budgetMs, windowMs }) => `${budgetMs}/${windowMs}`,
    )
  assert.deepEqual(limits({ region: 'none' }), ['36000/3600000'])
  assert.deepEqual(limits({ region: 'none', power_dbm: 17 }), [])
  assert.deepEqual(limits({ region: 'US915', bandwidth_khz: 500 }), ['36000/3600000'])
  assert.deepEqual(limits({ region: 'US915', fixed_channel_allowed: true }), ['400/20000', '36000/3600000'])
  assert.deepEqual(limits({ frequency_hz: 869_525_000 }), ['36000/3600000'], 'of the 10 % of this band')
  assert.deepEqual(limits({ frequency_hz: 864_000_000, power_dbm: 18, antenna_gain_dbi: -5 }), ['3600/3600000'])
})

test('the queue: a newer answer replaces an older one of its epoch, others stay; both lists are limited', async () => {
  const queue = new RadioQueue()
  const answerOf = (epoch: number, cum: number): Uint8Array => {
    const bytes = Buffer.alloc(17)
    bytes[0] = COMMAND.HANDSHAKE_ACK
    bytes.writeUInt32BE(epoch, 3)
    bytes.writeUInt32BE(cum, 7)
    return bytes
  }
  const sent: [string, boolean][] = []
  const add = (name: string, packet: Uint8Array, now = 0): void =>
    void queue.add(packet, now).then(went => void sent.push([name, went]))
  const settled = async (): Promise<[string, boolean][]> => {
    await new Promise(setImmediate)
    return sent.splice(0)
  }
  add('one', answerOf(1, 1))
  add('other', answerOf(2, 1))
  add('newer', answerOf(1, 2))
  assert.deepEqual(await settled(), [['one', false]])
  assert.equal(queue.length, 2)
  assert.equal(queue.peek()!.packet[10], 2, 'in the place of the older')
  add('plain ACK', Buffer.of(COMMAND.HANDSHAKE_ACK, 0, 0))
  add('again', Buffer.of(COMMAND.HANDSHAKE_ACK, 0, 0))
  assert.equal(queue.length, 4, 'not of the exchange: each is one')
  add('short', answerOf(1, 2).subarray(0, 12))
  add(
    'with a seq',
    Uint8Array.from(answerOf(1, 2), (byte, k) => (k === 2 ? 1 : byte)),
  )
  assert.equal(queue.length, 6, 'nor is one with the same first bytes')
  for (let k = queue.length; k < MOST_WAITING; k++) add('pong', Buffer.of(COMMAND.PONG, 0, k))
  assert.deepEqual(await settled(), [])
  add('one too many', Buffer.of(COMMAND.PONG, 1, 0))
  assert.deepEqual(await settled(), [['newer', false]], 'the oldest answer is dropped')
  for (let k = 0; k <= MOST_WAITING; k++) add(`data ${k}`, Buffer.of(COMMAND.DATA_FULL, k))
  assert.deepEqual(await settled(), [[`data ${MOST_WAITING}`, false]], 'a packet too many is refused')
  assert.equal(queue.isAnswer(queue.peek()!), true)
  assert.equal(queue.expire(29_999), 0)
  assert.equal(queue.expire(30_000), MOST_WAITING)
  assert.equal(queue.isAnswer(queue.peek()!), false)
  const late = await settled()
  assert.deepEqual([late.length, late.some(([, sent]) => sent)], [MOST_WAITING, false])
  queue.done(queue.peek()!, true)
  assert.deepEqual(await settled(), [['data 0', true]])
  assert.equal(queue.expire(59_999), 0)
  assert.equal(queue.expire(60_000), MOST_WAITING - 1)
  assert.equal(queue.peek(), null)
  add('last', Buffer.of(COMMAND.PONG))
  queue.clear()
  assert.equal(queue.length, 0)
})
