// The files of hwmon and IIO according to the kernel's ABI pages: which are channels, their units and scales
// (Documentation/ABI/testing/sysfs-class-hwmon, sysfs-bus-iio). Values are divided for exact decimals: 23_400 / 1000 is
// 23.4, but 23_400 * 0.001 is not. Pure tables and functions; a file that is no channel gives undefined.

interface LinearConversion {
  /** UCUM */
  readonly unit: string
  /** the kernel's number divided by this is in `unit` */
  readonly divide: number
}

const conversion = (unit: string, divide = 1): LinearConversion => ({ unit, divide })

/** In the order for people: temperatures first. */
const HWMON: Readonly<Record<string, LinearConversion>> = {
  temp: conversion('Cel', 1000),
  in: conversion('V', 1000),
  curr: conversion('A', 1000),
  power: conversion('W', 1_000_000),
  energy: conversion('J', 1_000_000),
  fan: conversion('rpm'),
  humidity: conversion('%', 1000),
  freq: conversion('Hz'),
}
const HWMON_ORDER = Object.keys(HWMON)

interface HwmonChannel extends LinearConversion {
  /** `temp1`: stem of its files (temp1_input, temp1_label, temp1_fault, temp1_enable) */
  readonly stem: string
  /** the file with the value */
  readonly file: string
  /** sorts the channels of a chip */
  readonly rank: number
}

/** The channel of a hwmon file such as `temp1_input`. A power meter may only have `power1_average`. */
export function hwmonChannel(file: string, files: ReadonlySet<string>): HwmonChannel | undefined {
  const [, kind, index, what] = /^([a-z]+)(\d+)_(input|average)$/.exec(file) ?? []
  const found = kind === undefined || !Object.hasOwn(HWMON, kind) ? undefined : HWMON[kind]
  if (!found) return undefined
  const stem = `${kind}${index}`
  if (what === 'average' && (kind !== 'power' || files.has(`${stem}_input`))) return undefined
  return { ...found, stem, file, rank: HWMON_ORDER.indexOf(kind!) * 10_000 + Number(index) }
}

/** IIO channel types: how (raw + offset) * scale converts to our unit. */
const IIO: Readonly<Record<string, LinearConversion>> = {
  accel: conversion('m/s2'),
  angl: conversion('rad'),
  anglvel: conversion('rad/s'),
  capacitance: conversion('F', 1e9),
  concentration: conversion('%'),
  count: conversion('{counts}'),
  current: conversion('A', 1000),
  distance: conversion('m'),
  electricalconductivity: conversion('S/m'),
  energy: conversion('J'),
  gravity: conversion('m/s2'),
  humidityrelative: conversion('%', 1000),
  illuminance: conversion('lx'),
  incli: conversion('deg'),
  index: conversion('{1}'),
  intensity: conversion('{1}'),
  magn: conversion('T', 10_000),
  massconcentration: conversion('ug/m3'),
  ph: conversion('{pH}'),
  phase: conversion('rad'),
  power: conversion('W', 1000),
  pressure: conversion('Pa', 0.001),
  proximity: conversion('m'),
  resistance: conversion('Ohm'),
  rot: conversion('deg'),
  steps: conversion('{steps}'),
  temp: conversion('Cel', 1000),
  uvindex: conversion('{1}'),
  velocity: conversion('m/s'),
  voltage: conversion('V', 1000),
}

/** The unit of a raw count without a known scale: converter steps. */
const RAW = conversion('{raw}')
/** Types whose raw value is the value; a raw value of any other type without a scale has no unit. */
const UNSCALED = new Set(['count', 'index', 'steps', 'intensity', 'uvindex'])

interface IioChannel extends LinearConversion {
  /** `temp`, `voltage0`, `accel_x` */
  readonly stem: string
  readonly file: string
  /** files with scale and offset of a raw value; absent for `_input`, or if the kernel has none */
  readonly scale?: string
  readonly offset?: string
}

/** The channel of an IIO file such as `in_voltage0_raw`, `in_accel_x_raw`, `in_temp_input`, with its related files. */
export function iioChannel(file: string, files: ReadonlySet<string>): IioChannel | undefined {
  const [, type, channel = '', what] = /^in_([a-z]+)(\d*(?:-[a-z]+\d+)?(?:_[a-z0-9_]+?)?)_(raw|input)$/.exec(file) ?? []
  const found = type === undefined || !Object.hasOwn(IIO, type) ? undefined : IIO[type]
  if (!found || channel.includes('quaternion')) return undefined
  const stem = `${type}${channel}`
  // a processed value needs no scale; a channel that has both files is read once, processed
  if (what === 'input') return { ...found, stem, file }
  if (files.has(`in_${stem}_input`)) return undefined
  const own = (suffix: string): string | undefined =>
    belonging(type!, channel)
      .find(name => files.has(`${name}_${suffix}`))
      ?.concat(`_${suffix}`)
  const scale = own('scale')
  const offset = own('offset')
  const conversion = scale || UNSCALED.has(type!) ? found : RAW
  return { ...conversion, stem, file, ...(scale && { scale }), ...(offset && { offset }) }
}

/** A scale can apply to one channel, to all of a modifier or to all of the type: the most specific wins. */
function belonging(type: string, channel: string): string[] {
  const names = [`in_${type}${channel}`]
  const [, index = '', modifier = ''] = /^(\d*(?:-[a-z]+\d+)?)(_.*)?$/.exec(channel) ?? []
  if (modifier) names.push(`in_${type}${index}`, `in_${type}${modifier}`)
  // differential pairs share `in_voltage-voltage_scale`
  if (index.includes('-')) names.push(`in_${type}-${type}`)
  names.push(`in_${type}`)
  return names
}
