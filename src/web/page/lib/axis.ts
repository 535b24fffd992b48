// Labels of a plot's axes. No two are the same and none overlaps the next, whatever the language and however narrow the
// range. Pure: the caller measures the width of texts.

const MINUTE = 60
const HOUR = 3600
const DAY = 86_400

const CLOCK: Intl.DateTimeFormatOptions = { hour: '2-digit', minute: '2-digit' }
const DATE: Intl.DateTimeFormatOptions = { month: 'short', day: 'numeric' }

/** Steps between labels of a time axis, in seconds: labels with hours and minutes need at least a minute, dates a day. */
export const timeSteps = (range: number): number[] =>
  range > DAY
    ? [1, 2, 3, 4, 7, 14, 28].map(days => days * DAY)
    : [...[1, 2, 5, 10, 15, 30].map(minutes => minutes * MINUTE), ...[1, 2, 3, 6, 12, 24].map(hours => hours * HOUR)]

/** Hours for a day, days for more; the first label of a new day is its date. `locale` left out: the browser's. */
export function timeLabels(ticks: readonly number[], range: number, locale?: string): string[] {
  const [date, clock] = [new Intl.DateTimeFormat(locale, DATE), new Intl.DateTimeFormat(locale, CLOCK)]
  const dates = ticks.map(tick => date.format(tick * 1000))
  const labels = ticks.map((tick, k) =>
    range > DAY || (k > 0 && dates[k] !== dates[k - 1]) ? dates[k]! : clock.format(tick * 1000),
  )
  return unique(labels)
}

/** Pixels between labels, enough for the widest label of the range. */
export function timeSpace(from: number, to: number, width: (text: string) => number, locale?: string): number {
  const samples = Array.from({ length: 25 }, (_, k) => from + (k * (to - from)) / 24)
  const clock = new Intl.DateTimeFormat(locale, CLOCK)
  const labels = [
    ...timeLabels(samples, to - from, locale),
    ...(to - from > DAY ? [] : samples.map(t => clock.format(t * 1000))),
  ]
  return Math.ceil(Math.max(...labels.map(width))) + 14
}

/** Numbers with as many digits as the step needs. */
export function valueLabels(ticks: readonly number[], step: number): string[] {
  const greatest = Math.max(...ticks.map(Math.abs))
  const decimals = digits(step)
  if (greatest < 1e7 && decimals <= 6) {
    const form = { minimumFractionDigits: decimals, maximumFractionDigits: decimals }
    return unique(ticks.map(tick => (tick === 0 ? 0 : tick).toLocaleString('en', form)))
  }
  const places = Math.min(15, Math.max(0, Math.floor(Math.log10(greatest)) + digits(step)))
  return unique(ticks.map(tick => (tick === 0 ? '0' : tick.toExponential(places))))
}

/** Decimals of a step: 2 for 0.25, 0 for 5, -3 for 1000. */
function digits(step: number): number {
  if (!(step > 0)) return 0
  let decimals = -Math.floor(Math.log10(step) + 1e-9)
  const whole = (size: number): boolean => Math.abs(size - Math.round(size)) < 1e-6
  if (!whole(step * 10 ** decimals)) decimals++
  return decimals > 0 || step >= 1e7 ? decimals : 0
}

/** A repeated label is left empty. */
const unique = (labels: readonly string[]): string[] =>
  labels.map((label, k) => (labels.indexOf(label) === k ? label : ''))
