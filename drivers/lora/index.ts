// LoRa (decision 0035): SX1276, 77, 78 and 79 on the kernel's spidev, their DIO and reset lines on gpiod. All users of a radio
// (uplink, receiver and dispatch with the same `spi`) share one opening and must have the same settings. The budget of
// time on the air belongs to the radio and its band, outlives the links, and is stored in <data_dir>/lora. Errors: see
// radio.ts, channel.ts and airtime-file.ts; options that the chip or the regulations do not allow: CONFIG_INVALID.
import { basename, join } from 'node:path'
import { type Files, realFiles } from '../../src/lib/files'
import { systemTimers, type Timers } from '../../src/lib/timers'
import type { DriverContext, Medium, MediumDriver } from '../../src/links/contracts'
import { checkOptions } from '../../src/links/driver-options'
import { sharedMedium } from '../kit/shared'
import { DutyBook } from './airtime-file'
import { DutyCycle } from './duty'
import { type RadioHardware, realHardware } from './hardware'
import { type LoraOptions, loraOptions } from './lora-options'
import { LoraMedium } from './medium'
import { modemOf } from './modem'
import { narrowRule } from './region'

/** Test replacements for the machine. */
export interface LoraEnvironment {
  readonly hardware?: RadioHardware
  readonly timers?: Timers
  readonly files?: Files
  readonly random?: () => number
  readonly budgets?: Budgets
}

interface Budget {
  readonly duty: DutyCycle
  readonly book: DutyBook | null
}

/** by radio and band; one per process */
export type Budgets = Map<string, Budget>
const budgetsOfAll: Budgets = new Map()

/** Throws CONFIG_INVALID. */
export function createLora(name: string, raw: unknown, context: DriverContext, more: LoraEnvironment = {}): Medium {
  const options = checkOptions<LoraOptions>(loraOptions, raw, name)
  const modem = modemOf(options)
  const { clock, logger, dataDir } = context
  const { timers = systemTimers, files = realFiles, random = Math.random, budgets = budgetsOfAll } = more
  const { hardware = realHardware(clock) } = more
  const { band } = modem
  const rule = narrowRule(options.region, modem.air.bandwidthHz)
  if (rule !== undefined) logger.warn(`${name}: one fixed channel in ${options.region}: ${rule}`)
  const { mode, ...settings } = options

  const budget = (): Budget => {
    const limits = band.limits.map(({ budgetMs, windowMs }) => `${budgetMs}/${windowMs}`)
    const key = [options.spi, options.region, band.name, ...limits].join(' ')
    const known = budgets.get(key)
    if (known) return known
    const duty = new DutyCycle(band.limits)
    const longest = [...band.limits].sort((a, b) => b.windowMs - a.windowMs)[0]
    const path = dataDir === undefined ? null : join(dataDir, 'lora', `${basename(options.spi)}.json`)
    const parts = { path: path ?? '', band: `${options.region} ${band.name}`, duty, clock, files, logger }
    const book = path !== null && longest ? new DutyBook({ ...parts, budgetMs: longest.budgetMs }) : null
    book?.load()
    budgets.set(key, { duty, book })
    return { duty, book }
  }

  return sharedMedium('LoRa', {
    ...{ name, mode, logger, key: options.spi, settings },
    make: () => new LoraMedium(options.spi, { hardware, options, modem, clock, timers, logger, random, ...budget() }),
  })
}

export const loraDriver: MediumDriver<LoraOptions> = {
  medium: 'LoRa',
  schema: loraOptions,
  check: modemOf,
  create: (name, options, context) => createLora(name, options, context),
}
