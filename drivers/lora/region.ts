// The legal limits per region: one table of bands. Europe: ERC Recommendation 70-03 annex 1 and EN 300 220-2; United
// States: FCC 15.247, with the EIRP of the LoRaWAN Regional Parameters (RP002); Australia: the LIPD class licence 2015
// as varied in 2016 (F2016L00636), with the 400 ms of RP002 for the other countries of that plan; the others as in
// RP002. The operator is responsible for transmissions (in AS923 each country allows only part of the band); this table
// only prevents unintended violations. A frequency outside every band is refused.
import { OsError } from '../../src/lib/errors'

export const REGIONS = ['EU868', 'EU433', 'US915', 'AS923', 'IN865', 'AU915', 'none'] as const
export type Region = (typeof REGIONS)[number]

/** At most `budgetMs` of sending within any `windowMs`. */
export interface Limit {
  readonly windowMs: number
  readonly budgetMs: number
}

export interface Band {
  readonly name: string
  readonly fromHz: number
  readonly toHz: number
  readonly maxEirpDbm: number
  /** each applies to any window of its length */
  readonly limits: readonly Limit[]
  /** longest single transmission, ms */
  readonly dwellMs: number
}

/** the window of a duty cycle (EN 300 220-1: one hour) */
const HOUR_MS = 3_600_000
const MHZ = 1_000_000
const unlimited = Number.POSITIVE_INFINITY

const duty = (percent: number): Limit => ({ windowMs: HOUR_MS, budgetMs: (HOUR_MS * percent) / 100 })
const band = (
  name: string,
  from: number,
  to: number,
  maxEirpDbm: number,
  limits: readonly Limit[] = [],
  dwellMs = unlimited,
): Band => ({ name, fromHz: from * MHZ, toHz: to * MHZ, maxEirpDbm, limits, dwellMs })

/** FCC 15.247 (a)(1)(i): 0.4 s on one frequency within 20 s; for a hopping channel of 250 kHz and more: within 10 s */
const DWELL: Limit = { windowMs: 20_000, budgetMs: 400 }
const DWELL_HALF_WIDE: Limit = { windowMs: 10_000, budgetMs: 400 }
const HALF_WIDE_HZ = 250_000

/**
 * FCC 15.247 (a)(2): channels this wide are digital modulation, without hopping and dwell time; 8 dBm in 3 kHz are then
 * 30 dBm
 */
const WIDE_HZ = 500_000

/** LIPD class licence, digital modulation in 915-928 MHz: 25 mW EIRP in any 3 kHz, 1 W EIRP in all */
const AU_DENSITY_DBM = 10 * Math.log10(25)
const DENSITY_HZ = 3000

/** SX1276/77/78/79 data sheet 5.4.3: above 17 dBm the chip allows a duty cycle of 1 % */
export const HIGH_POWER: Limit = duty(1)

/** dBm EIRP, rounded down to hundredths */
const auLimit = (bandwidthHz: number): number =>
  Math.floor(100 * (AU_DENSITY_DBM + 10 * Math.log10(bandwidthHz / DENSITY_HZ))) / 100

/** The legal rule for one fixed channel of that width in the region; undefined: no rule except its band. */
export function narrowRule(region: Region, bandwidthHz: number): string | undefined {
  if (bandwidthHz >= WIDE_HZ) return undefined
  if (region === 'US915') {
    const [channels, seconds] = bandwidthHz < HALF_WIDE_HZ ? [50, 20] : [25, 10]
    return (
      `FCC 15.247 (a)(1)(i) requires hopping over at least ${channels} channels, 0.4 s on one within ${seconds} s; ` +
      'without hopping 15.249 allows 50 mV/m at 3 m, about -1.2 dBm EIRP'
    )
  }
  if (region === 'AU915')
    return (
      'in Australia the LIPD class licence (F2015L01438, varied by F2016L00636) allows it as digital modulation: 1 W EIRP and ' +
      `25 mW in any 3 kHz, here ${Math.min(30, auLimit(bandwidthHz)).toFixed(1)} dBm EIRP; other countries of this plan require hopping`
    )
  return undefined
}

/** A band with one more limit; of two for the same window the stricter applies. */
export function withLimit(band: Band, limit: Limit): Band {
  const same = band.limits.find(({ windowMs }) => windowMs === limit.windowMs)
  if (same && same.budgetMs <= limit.budgetMs) return band
  return { ...band, limits: [...band.limits.filter(other => other !== same), limit] }
}

/** ERP limits are converted to EIRP: 2.15 dB more */
export const BANDS: Readonly<Record<Exclude<Region, 'none'>, { usualHz: number; bands: readonly Band[] }>> = {
  EU868: {
    usualHz: 868_100_000,
    bands: [
      band('863-865', 863, 865, 16.15, [duty(0.1)]),
      band('865-868', 865, 868, 16.15, [duty(1)]),
      band('868.0-868.6', 868, 868.6, 16.15, [duty(1)]),
      band('868.7-869.2', 868.7, 869.2, 16.15, [duty(0.1)]),
      band('869.4-869.65', 869.4, 869.65, 29.15, [duty(10)]),
      band('869.7-870', 869.7, 870, 16.15, [duty(1)]),
    ],
  },
  EU433: { usualHz: 433_175_000, bands: [band('433.05-434.79', 433.05, 434.79, 12.15, [duty(10)])] },
  US915: { usualHz: 903_900_000, bands: [band('902-928', 902, 928, 30, [DWELL], 400)] },
  AS923: { usualHz: 923_200_000, bands: [band('915-928', 915, 928, 16, [duty(1)], 400)] },
  IN865: { usualHz: 865_062_500, bands: [band('865-867', 865, 867, 30)] },
  AU915: { usualHz: 916_800_000, bands: [band('915-928', 915, 928, 30, [DWELL], 400)] },
}

/** The default frequency; without a region, the European one. */
export const usualFrequency = (region: Region): number => BANDS[region === 'none' ? 'EU868' : region].usualHz

/**
 * The band that contains the complete channel. Throws CONFIG_INVALID, naming the bands of the region, if there is none.
 * Also throws, naming the rule, if the regulations do not allow one fixed narrow channel there, unless `fixedAllowed`
 * says that the operator knows the rule. Region `none` has no limits: for a shielded bench, or an individual licence.
 */
export function bandOf(region: Region, frequencyHz: number, bandwidthHz: number, fixedAllowed = false): Band {
  if (region === 'none') return band('none', 0, 2000, unlimited)
  const low = frequencyHz - bandwidthHz / 2
  const high = frequencyHz + bandwidthHz / 2
  const { bands } = BANDS[region]
  const found = bands.find(({ fromHz, toHz }) => low >= fromHz && high <= toHz)
  if (!found) {
    const names = bands.map(({ name }) => name).join(', ')
    throw new OsError(
      'CONFIG_INVALID',
      `${region}: a channel of ${bandwidthHz / 1000} kHz at ${frequencyHz / MHZ} MHz lies in none of ${names} MHz`,
      { hint: 'choose another frequency_hz, bandwidth_khz or region' },
    )
  }
  const rule = fixedAllowed ? undefined : narrowRule(region, bandwidthHz)
  if (rule !== undefined)
    throw new OsError('CONFIG_INVALID', `${region}: one fixed channel of ${bandwidthHz / 1000} kHz: ${rule}`, {
      hint: 'set bandwidth_khz to 500, or fixed_channel_allowed to true if you may send on it',
      details: { keys: ['fixed_channel_allowed', 'bandwidth_khz'] },
    })
  if (found.limits[0] !== DWELL) return found
  const maxEirpDbm = region === 'AU915' ? Math.min(found.maxEirpDbm, auLimit(bandwidthHz)) : found.maxEirpDbm
  if (bandwidthHz >= WIDE_HZ) return { ...found, maxEirpDbm, limits: [], dwellMs: unlimited }
  const halfWide = region === 'US915' && bandwidthHz >= HALF_WIDE_HZ
  return { ...found, maxEirpDbm, limits: [halfWide ? DWELL_HALF_WIDE : DWELL] }
}
