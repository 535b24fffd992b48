// db export: all packets of a data directory as one ordinary SQLite file. The file belongs to the caller, in a folder
// that a gateway may not be allowed to use, so this process writes it, even while a gateway runs: the data directory is
// only read. If a window had to be skipped, the result names it, exit 4.
import { systemClock } from '../../lib/clock'
import { counted } from '../../lib/counted'
import { bytesText } from '../../units/display'
import type { Verb } from '../verb'
import { UNITS } from './log'

const TELL_MS = 5000

interface Exported {
  readonly ok: boolean
  readonly file: string
  readonly bytes: number
  readonly rows: { readonly os_packets: number; readonly os_sensors: number }
  readonly left_out?: readonly string[]
}

export const dbExport: Verb<Exported> = {
  name: 'db export',
  summary: 'export all packets to SQLite, or all readings to CSV',
  description:
    'Tables os_packets and os_sensors, for every program that reads SQLite. A name that ends in .csv makes a CSV file: ' +
    'one row per sensor reading. The data directory is only read, so a gateway may run.',
  examples: [
    'os-node db export packets.sqlite',
    'os-node db export readings.csv',
    'os-node db export --file /media/usb/packets.sqlite --force --json',
  ],
  options: {
    file: { type: 'string', value: 'PATH', required: true, help: 'output file' },
    force: { type: 'boolean', help: 'overwrite an existing file' },
    units: UNITS,
  },
  operands: ['file'],
  where: 'local',
  async run({ config, logger, signal }, options) {
    const { exportDatabase } = await import('../../storage/exporter')
    let reportedAt = systemClock.mono()
    const { left_out, ...result } = await exportDatabase({
      file: String(options.file),
      force: options.force === true,
      display: options.units === 'display',
      dataDir: config.dataDir,
      path: config.config.storage.sql.driver.path,
      signal,
      report: (done, of) => {
        if (systemClock.mono() - reportedAt < TELL_MS) return
        reportedAt = systemClock.mono()
        logger.info(`${done} of about ${counted(Math.max(done, of), 'packet')}`)
      },
    })
    const ok = left_out.length === 0
    return { value: { ok, ...result, ...(!ok && { left_out }) }, exitCode: ok ? 0 : 4 }
  },
  text({ file, bytes, rows, left_out = [] }, paint) {
    return [
      `${paint.bold(file)}: ${counted(rows.os_packets, 'packet')}, ${counted(rows.os_sensors, 'sensor value')}, ${bytesText(bytes)}`,
      ...left_out.map(why => paint.bad(`left out, except for the records that the log still holds: ${why}`)),
    ].join('\n')
  },
}
