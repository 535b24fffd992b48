// transmit: sends readings from the command line as one packet. In a running gateway the readings pass through its
// intake and log; without one a Node sends them. Exit 0 if the packet was sent or is stored for delivery, else 1
// (specification, "CLI commands"; X28).

import type { TransmitOutcome } from '../../gateway/transmit'
import { asOsError, OsError } from '../../lib/errors'
import type { RejectedRow } from '../../pipeline/core'
import type { Reading } from '../../pipeline/fact'
import { type DeviceRole, sendRefusal } from '../../protocol/handshake/roles'
import { COMMAND } from '../../wire/commands'
import type { CommandContext } from '../context'
import type { OptionSpec, OptionValues, Verb } from '../verb'

function parseSensors(text: string, from: string): Reading[] {
  let value: unknown
  try {
    // Windows editors add a byte order mark
    value = JSON.parse(text.replace(/^\ufeff/, ''))
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw new OsError('USAGE', `${from} JSON parse failed: ${why}`, {
      cause,
      hint: `give [["T1","OK",21.5,"Cel"], …]`,
    })
  }
  if (!Array.isArray(value)) throw new OsError('USAGE', `${from} must be a JSON array of readings`)
  // people often type one reading instead of a list
  return (value.length > 0 && !Array.isArray(value[0]) ? [value] : value) as Reading[]
}

export function readingsOf(options: OptionValues): Reading[] {
  if (typeof options.sensors === 'string') return parseSensors(options.sensors, '--sensors')
  const text = (name: string, standard: string): string => String(options[name] ?? standard)
  return [[text('sensor-id', 'V1'), text('sensor-status', 'OK'), Number(options.value ?? 1), text('unit', 'Pa')]]
}

/** Without a gateway, a Node of this process transmits and dispatches. */
async function sendLocally(
  context: CommandContext,
  sensors: Reading[],
  options: OptionValues,
): Promise<TransmitOutcome> {
  const refusal = sendRefusal(context.config.get<DeviceRole>('Node_Setting.device_role'), COMMAND.DATA_FULL)
  if (refusal) throw refusal
  const node = await context.node()
  const { device_id = null, device_status } = deviceOf(options)
  const [packet, assigned_id, strategy] = node.transmit(sensors, device_id, device_status)
  const rejected = refusedRows(node.lastRejected)
  const medium = typeof options.medium === 'string' ? options.medium : null
  const sent = await node.dispatch(packet, medium)
  if (!sent && node.lastError?.code === 'NO_DRIVER') throw node.lastError
  const how = sent
    ? { delivery: 'sent' as const }
    : { reason: node.lastError?.message ?? 'the medium did not accept the packet' }
  return { packet, assigned_id, strategy, sent, ...how, dispatch_path: sent ? 'driver' : 'none', rejected }
}

const deviceOf = (options: OptionValues): { device_id?: string; device_status: string } => ({
  ...(typeof options['device-id'] === 'string' && { device_id: options['device-id'] }),
  device_status: String(options.status ?? 'ONLINE'),
})

/** Options with the readings to send; inject has them too. */
export const READING_OPTIONS: Readonly<Record<string, OptionSpec>> = {
  'sensor-id': { type: 'string', value: 'ID', default: 'V1', help: 'sensor of a single reading' },
  'sensor-status': { type: 'string', value: 'ST', default: 'OK', help: 'its status' },
  value: { type: 'number', value: 'VAL', default: 1, help: 'its value' },
  unit: { type: 'string', value: 'UNIT', default: 'Pa', help: 'its UCUM unit' },
  sensors: { type: 'string', value: 'JSON', help: 'readings as a JSON array' },
  'sensors-file': { type: 'string', value: 'PATH', help: 'file with the JSON array' },
  'device-id': { type: 'string', value: 'ID', help: 'name of the device (else device_id of the configuration)' },
  status: { type: 'string', value: 'ST', default: 'ONLINE', help: 'status of the device' },
}

/** Reads --sensors-file on the client's side; --sensors has priority. */
export async function readSensorsFile(
  options: OptionValues,
  read: (path: string) => Promise<string>,
): Promise<OptionValues> {
  const { 'sensors-file': path, ...others } = options
  if (typeof path !== 'string' || typeof options.sensors === 'string') return others
  const sensors = await read(path)
  parseSensors(sensors, path)
  return { ...others, sensors }
}

/** A gateway reads no file for a caller; the client has done it already. Throws USAGE. */
export function refuseFile(options: OptionValues): void {
  if (options['sensors-file'] !== undefined) throw new OsError('USAGE', 'a gateway reads no files for a command')
}

/** Refused rows as in the answers of commands. */
export const refusedRows = (rows: readonly RejectedRow[]): TransmitOutcome['rejected'] =>
  rows.map(({ index, code, reason }) => ({ row: index, code, error: reason }))

/** A refusal has `sent` and `reason` like a dispatch, and refused rows in one form, whether some or all were refused. */
function asRefusal(thrown: unknown): OsError {
  const { code, message, hint, cause, details } = asOsError(thrown)
  const rejected = refusedRows(Array.isArray(details.rejected) ? details.rejected : [])
  const more = { ...details, sent: false, reason: message, ...(rejected.length > 0 && { rejected }) }
  return new OsError(code, message, { hint, cause, details: more })
}

export const transmit: Verb = {
  name: 'transmit',
  aliases: ['os-transmit'],
  summary: 'send readings',
  description: 'A reading is [sensor_id, status, value, unit]. --sensors and --sensors-file override the single one.',
  examples: [
    'os-node transmit --sensor-id T1 --value 21.5 --unit Cel',
    `os-node transmit --sensors '[["T1","OK",21.5,"Cel"],["P1","OK",101.3,"kPa"]]'`,
    'os-node transmit --sensors-file readings.json --medium UDP --json',
  ],
  options: {
    ...READING_OPTIONS,
    medium: { type: 'string', value: 'MEDIUM', help: 'medium (else Node_Setting.default_medium)' },
  },
  where: 'either',
  changes: true,
  json: true,
  prepare: readSensorsFile,
  async run(context, options) {
    refuseFile(options)
    const sensors = readingsOf(options)
    const { medium } = options
    const sending = context.gateway
      ? context.gateway.transmit({ sensors, ...deviceOf(options), ...(typeof medium === 'string' && { medium }) })
      : sendLocally(context, sensors, options)
    const outcome = await sending.catch(thrown => Promise.reject(asRefusal(thrown)))
    const { packet, assigned_id, strategy, sent, delivery, reason, dispatch_path, rejected } = outcome
    const value = {
      assigned_id,
      strategy,
      packet_len: packet.length,
      packet_cmd: packet[0] ?? 0,
      dispatch_path,
      sensors_count: sensors.length - rejected.length,
      sent,
      ...(delivery && { delivery }),
      ...(reason !== undefined && { reason }),
      ...(rejected.length > 0 && { rejected }),
    }
    return { value, exitCode: sent ? 0 : 1 }
  },
}
