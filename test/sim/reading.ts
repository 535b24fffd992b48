// The values of a reading, by its number: another reading has others.

export type Row = readonly [string, string, number, string]

const T_ZERO = 273.15
/** kelvin: of another reading it differs by more than the wire rounds */
const kelvin = (n: number): number => 280 + ((n * 37) % 1000) / 10

/** Changes rarely: a DIFF leaves it out. */
const slow = (n: number): number => Math.floor(n / 3) % 50

/** What the source gives. */
export const rowsOf = (n: number): Row[] => [
  ['count', 'OK', n, '1'],
  ['temp', 'OK', kelvin(n) - T_ZERO, 'Cel'],
  ['slow', 'OK', slow(n), 'Pa'],
]

interface Sensors {
  readonly sensors: readonly { id: string; status: string; unit: string; value: unknown }[]
}

/** Whether a fact has another value, unit or status than that reading. */
export function differs({ sensors }: Sensors, n: number): boolean {
  const expected: Row[] = [
    ['count', 'OK', n, '1'],
    ['temp', 'OK', kelvin(n), 'K'],
    ['slow', 'OK', slow(n), 'Pa'],
  ]
  return (
    sensors.length !== expected.length ||
    expected.some(([id, status, value, unit], k) => {
      const sensor = sensors[k]!
      const near = Math.abs(Number(sensor.value) - value) < 1e-6 * Math.max(1, value)
      return sensor.id !== id || sensor.status !== status || sensor.unit !== unit || !near
    })
  )
}
