// GPIO as a source: levels, changes, pulse counters, frequencies and outputs, on lines of the kernel's GPIO chips.
// gpio-source.ts describes the errors, ../board how pins are named.
import type { SourceDriver } from '../../src/links/contracts'
import { checkOptions } from '../../src/links/driver-options'
import { type GpioOptions, gpioOptions } from './gpio-options'
import { GpioSource } from './gpio-source'

export const gpioDriver: SourceDriver<GpioOptions> = {
  type: 'gpio',
  schema: gpioOptions,
  create: (name, raw) => new GpioSource(name, checkOptions(gpioOptions, raw, name)),
}
