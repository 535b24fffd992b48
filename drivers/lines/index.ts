// Sources that read lines of text from a serial port: `line` (regular expressions) and `nmea` (NMEA 0183).
// Declarations; line-source.ts describes the errors.
import type { SourceDriver } from '../../src/links/contracts'
import { checkOptions } from '../../src/links/driver-options'
import { serialLine, serialSettings } from '../serial'
import { lineOptions, nmeaOptions } from './line-options'
import { createLineSource, createNmeaSource } from './line-source'

export const lineSource: SourceDriver = {
  type: 'line',
  schema: lineOptions,
  create: (name, raw, context) => {
    const options = checkOptions(lineOptions, raw, name)
    return createLineSource(name, options, serialLine(name, serialSettings(options), context), context)
  },
}

export const nmeaSource: SourceDriver = {
  type: 'nmea',
  schema: nmeaOptions,
  create: (name, raw, context) => {
    const options = checkOptions(nmeaOptions, raw, name)
    return createNmeaSource(name, options, serialLine(name, serialSettings(options), context), context)
  },
}
