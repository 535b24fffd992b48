// standardize: readings → fact dict, in the format of the reference's standardizer.
import { clockAt, number, type Ops } from './common'

export const standardizeOps: Ops = {
  standardize: (lib, { sensors, device_id = 'D1', status = 'ONLINE', t, precision, switches, extra, now }) => {
    const standardizer = new lib.Standardizer('', {
      clock: clockAt(now),
      settings: { unit_dialect: 'attribute', precision, payload_switches: switches ?? { SensorId: true } },
    })
    const rows = sensors.map((row: unknown[]) => row.map(number))
    return { fact: standardizer.standardize(device_id, status, rows, { ...(t !== undefined && { t }), ...extra }) }
  },
}
