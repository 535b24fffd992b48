// Source types of I2C chips: bme280, sht3x, ads1115, ina219, ds3231. Declarations and option schemas; device.ts and
// each chip's file describe the errors.
import * as v from 'valibot'
import { asOsError, OsError } from '../../src/lib/errors'
import type { Timers } from '../../src/lib/timers'
import type { DriverContext, Source, SourceDriver } from '../../src/links/contracts'
import { checkOptions } from '../../src/links/driver-options'
import { type ChannelSpec, chooseChannels, ValueChannel } from '../kit/channel'
import {
  channelEntries,
  type FixedChannel,
  finite,
  fixedChannels,
  interval,
  POLL_MS,
  sensorId,
  strict,
} from '../kit/common-options'
import { PolledSource } from '../kit/polled-source'
import { Ads1115, type Ads1115Input, INPUTS, RANGES, RATES } from './ads1115'
import { BME280_CHANNELS, Bme280, OVERSAMPLINGS } from './bme280'
import { type Bus, ChipProbe, type I2cChip } from './device'
import { DS3231_CHANNELS, Ds3231 } from './ds3231'
import { INA219_CHANNELS, Ina219 } from './ina219'
import { REPEATABILITY, SHT3X_CHANNELS, Sht3x } from './sht3x'

/** Addresses as numbers (118) or as in data sheets ("0x76"). */
const address = (standard: number) =>
  v.optional(
    v.pipe(
      v.union([v.number(), v.pipe(v.string(), v.regex(/^0x[0-9a-fA-F]{1,2}$/), v.transform(Number))]),
      v.integer(),
      v.minValue(3),
      v.maxValue(0x77),
    ),
    standard,
  )

/** A number of a bus (1 is /dev/i2c-1), or a path. */
const bus = v.optional(
  v.pipe(
    v.union([v.pipe(v.number(), v.integer(), v.minValue(0)), v.pipe(v.string(), v.minLength(1))]),
    v.transform(bus => (typeof bus === 'number' || /^\d+$/.test(bus) ? `/dev/i2c-${bus}` : bus)),
  ),
  1,
)

const common = (standard: number, intervalMs: number) => ({
  bus,
  address: address(standard),
  interval_ms: interval(intervalMs, POLL_MS),
})

const fixed = (standard: number, specs: readonly ChannelSpec[], intervalMs = 10_000) => ({
  ...common(standard, intervalMs),
  channels: fixedChannels(specs.map(({ key }) => key)),
})

const positive = v.pipe(finite, v.gtValue(0))

const schemas = {
  bme280: strict({
    ...fixed(0x76, BME280_CHANNELS),
    oversampling: v.optional(v.picklist(OVERSAMPLINGS), 1),
  }),
  sht3x: strict({
    ...fixed(0x44, SHT3X_CHANNELS),
    repeatability: v.optional(v.picklist(Object.keys(REPEATABILITY) as (keyof typeof REPEATABILITY)[]), 'high'),
  }),
  ads1115: strict({
    ...common(0x48, 1000),
    /** conversions per second */
    data_rate: v.optional(v.picklist(RATES), 128),
    inputs: v.pipe(
      v.array(
        strict({
          id: sensorId,
          input: v.picklist(Object.keys(INPUTS) as Ads1115Input[]),
          /** full scale in V, in both directions; whatever the range, an input must not exceed the supply voltage */
          range: v.optional(v.picklist(RANGES), 4.096),
          ...channelEntries,
        }),
      ),
      v.minLength(1),
      v.maxLength(8),
    ),
  }),
  ina219: strict({
    ...fixed(0x40, INA219_CHANNELS, 1000),
    shunt_ohm: v.optional(positive, 0.1),
    max_current_a: v.optional(positive, 3.2),
  }),
  ds3231: strict({ ...fixed(0x68, DS3231_CHANNELS, 60_000) }),
}

export type I2cType = keyof typeof schemas

/** Test replacements for the kernel. */
export interface I2cContext extends DriverContext {
  openBus?: (path: string) => Promise<Bus>
  timers?: Timers
  sysRoot?: string
}

interface Common {
  bus: string
  address: number
  interval_ms: number
}

function source(
  type: I2cType,
  name: string,
  { bus: path, address, interval_ms }: Common,
  { channels, places }: { channels: readonly ValueChannel[]; places: readonly number[] },
  chip: I2cChip,
  { openBus, timers, sysRoot }: I2cContext,
): Source {
  const seams = { ...(openBus && { openBus }), ...(timers && { timers }), ...(sysRoot && { sysRoot }) }
  const probe = new ChipProbe(chip, { name, path, address, places, ...seams })
  return new PolledSource(name, { type, intervalMs: interval_ms, channels }, probe)
}

type Fixed = Common & { channels?: Record<string, FixedChannel | undefined> | undefined }

/** A source type whose channels are defined by the chip. */
function declare<O extends Fixed>(
  type: I2cType,
  schema: v.GenericSchema<unknown, O>,
  specs: readonly ChannelSpec[],
  chip: (options: O, name: string) => I2cChip,
): SourceDriver<O> {
  return {
    type,
    schema,
    create(name, raw, context) {
      const options = checkOptions(schema, raw, name)
      return source(type, name, options, chooseChannels(name, specs, options.channels), chip(options, name), context)
    },
  }
}

// the schemas accept any input
const typed = <S extends v.GenericSchema>(schema: S) => schema as unknown as v.GenericSchema<unknown, v.InferOutput<S>>

const ads1115: SourceDriver = {
  type: 'ads1115',
  schema: typed(schemas.ads1115),
  create(name, raw, context) {
    const options = checkOptions(typed(schemas.ads1115), raw, name)
    const { inputs, data_rate } = options
    const channels = inputs.map(
      ({ id, unit = 'V', scale, offset, status }) => new ValueChannel({ id, unit, scale, offset, status }),
    )
    const places = inputs.map((_, k) => k)
    return source('ads1115', name, options, { channels, places }, new Ads1115(inputs, data_rate), context)
  },
}

/** Throws CONFIG_INVALID if the chip does not support the values. */
function ina219(name: string, shuntOhm: number, maxA: number): Ina219 {
  try {
    return new Ina219({ shuntOhm, maxA })
  } catch (cause) {
    throw new OsError('CONFIG_INVALID', `options of ${name}: ${asOsError(cause).message}`, { cause })
  }
}

/** type → driver */
export const i2cSources: Readonly<Record<I2cType, SourceDriver>> = {
  bme280: declare('bme280', typed(schemas.bme280), BME280_CHANNELS, o => new Bme280(o.oversampling)) as SourceDriver,
  sht3x: declare('sht3x', typed(schemas.sht3x), SHT3X_CHANNELS, o => new Sht3x(o.repeatability)) as SourceDriver,
  ads1115,
  ina219: declare('ina219', typed(schemas.ina219), INA219_CHANNELS, (o, name) =>
    ina219(name, o.shunt_ohm, o.max_current_a),
  ) as SourceDriver,
  ds3231: declare('ds3231', typed(schemas.ds3231), DS3231_CHANNELS, () => new Ds3231()) as SourceDriver,
}
