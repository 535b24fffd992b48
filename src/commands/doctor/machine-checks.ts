// Checks of the machine: clock, memory, temperature and power, native addon, rights on devices, buses.
import { deviceFindings } from '../../checks/devices'
import { type ResourceKind, readRemedies, remediesFile, remedyFor } from '../../checks/remedies'
import { timeText } from '../../lib/clock'
import { realFiles } from '../../lib/files'
import type { BoardReport } from '../../links/hardware'
import { bytesText } from '../../units/display'
import { type Checks, type DoctorContext, type Finding, failed, ok, skipped, warning, worst } from './finding'

/** earlier than any build: 2025-01-01 */
const TOO_EARLY_MS = 1_735_689_600_000

/** bits of the Raspberry Pi firmware: current state, and 16 places higher the state since the start */
const THROTTLED = [
  [0, 'the supply voltage is too low', 'use a stronger supply and a shorter cable'],
  [1, 'the processor runs slower', 'cool the board, or use a stronger supply'],
  [2, 'the processor is throttled', 'cool the board, or use a stronger supply'],
  [3, 'the board is at its temperature limit', 'cool the board'],
] as const
/** sysfs file with these bits, as a hexadecimal number */
const FIRMWARE = '/sys/bus/platform/drivers/raspberrypi-firmware'

/** The advice about something that is missing or not permitted; like env_guard's, it can be changed in a file. */
function remedy({ context, machine }: DoctorContext, kind: ResourceKind, resource: string, group?: string): string {
  const remedies = readRemedies(remediesFile(context.config.dataDir), realFiles, context.logger)
  return remedyFor(remedies, kind, resource, { user: machine.user, group })
}

/** About each configured device that is there, or that is missing. */
const devices = (doctor: DoctorContext, there: boolean): Finding[] =>
  deviceFindings(doctor.context.config, doctor.machine.look)
    .filter(({ kind }) => (kind !== 'device') === there)
    .map(({ kind, path, owners, message, group }) =>
      kind ? failed(`${owners.join(', ')}: ${message}`, remedy(doctor, kind, path, group)) : ok(message),
    )

async function boardOf({ context }: DoctorContext): Promise<BoardReport> {
  return (await context.hardware()).board()
}

export const MACHINE_CHECKS: Checks = {
  async clock({ context: { gateway }, machine }) {
    const now = machine.wall()
    const text = timeText(now)
    if (now < TOO_EARLY_MS)
      return failed(
        `the clock shows ${text}`,
        'connect to a network with NTP, or fit an RTC; os-node time-sync gets the time from the server',
      )
    const quality = gateway?.status().time.quality
    if (quality === 'ntp' || quality === 'server')
      return ok(`${text}, synchronized by ${quality === 'ntp' ? 'NTP' : 'the upstream'}`)
    const { kernel, timesyncdMs, rtcS } = await machine.clock()
    if (kernel?.synced || (!kernel && timesyncdMs !== undefined)) return ok(`${text}, synchronized by NTP`)
    if (rtcS !== undefined && Math.abs(rtcS - now / 1000) <= 120) return ok(`${text}, agrees with the RTC`)
    return warning(
      `${text}, not synchronized`,
      'sudo timedatectl set-ntp true; facts wait gateway.time.hold_unsynced_s for a sync, then are sent without one',
    )
  },

  memory({ context: { gateway }, machine }) {
    const guard = gateway?.status().guard
    if (guard && guard.level !== 'normal')
      return warning(
        `reduced operation (${guard.level}): ${guard.reason ?? ''}`,
        'stop other programs, or read fewer sensors',
      )
    const { limit, free } = machine.memory()
    const text = `${bytesText(limit)} usable${free === undefined ? '' : `, ${bytesText(free)} free`}`
    if (limit < 128 << 20) return warning(text, 'a gateway needs 128 MiB or more')
    if (free !== undefined && free < 32 << 20) return warning(text, 'stop other programs')
    return ok(text)
  },

  async throttling({ machine }) {
    const answers = machine.list(FIRMWARE).map(device => machine.measure(`${FIRMWARE}/${device}/get_throttled`))
    const bits = (await Promise.all(answers)).find(text => text !== undefined)
    if (bits !== undefined) {
      const n = Number.parseInt(bits, 16)
      const findings = THROTTLED.flatMap(([bit, text, hint]) =>
        n & (1 << bit) ? [failed(text, hint)] : n & (1 << (bit + 16)) ? [warning(`${text} at times`, hint)] : [],
      )
      return worst(findings, ok('never throttled since the start'))
    }
    for (const name of machine.list('/sys/class/hwmon')) {
      const dir = `/sys/class/hwmon/${name}`
      if (machine.read(`${dir}/name`)?.trim() !== 'rpi_volt') continue
      const [, text, hint] = THROTTLED[0]
      return (await machine.measure(`${dir}/in0_lcrit_alarm`))?.trim() === '1'
        ? failed(text, hint)
        : ok('the supply voltage is sufficient')
    }
    return skipped('this machine does not report it')
  },

  async temperature({ machine }) {
    const names = machine.list('/sys/class/thermal').filter(name => name.startsWith('thermal_zone'))
    const zones = (await Promise.all(names.map(name => machine.measure(`/sys/class/thermal/${name}/temp`))))
      .map(text => Number(text) / 1000)
      .filter(celsius => Number.isFinite(celsius) && celsius > 0 && celsius < 200)
    if (zones.length === 0) return skipped('this machine does not report it')
    const most = Math.max(...zones)
    const text = `${most.toFixed(0)} °C at most`
    return most >= 80 ? warning(text, 'cool the board: it slows down at 80 to 85 °C') : ok(text)
  },

  addon(doctor) {
    const why = doctor.machine.addon()
    if (why === null) return ok('native addon loaded')
    return warning(why, `links that need it stay down; ${remedy(doctor, 'package', 'native addon')}`)
  },

  async groups(doctor) {
    const findings = devices(doctor, true) // missing ones are reported by the check `buses`
    const { buses } = await boardOf(doctor)
    for (const { name, device, state, used_by, todo } of buses)
      if (state === 'no_right' && used_by.length > 0)
        findings.push(failed(`${used_by.join(', ')}: no permission to use ${name} (${device})`, todo))
    return worst(findings, ok('no configured device needs a group'))
  },

  async buses(doctor) {
    const findings = devices(doctor, false)
    const { buses: all, clashes, title } = await boardOf(doctor)
    for (const clash of clashes) findings.push(failed(`used twice: ${clash}`, 'os-node board shows the pins'))
    for (const { name, state, used_by, todo } of all)
      if (state === 'missing' && used_by.length > 0)
        findings.push(failed(`${used_by.join(', ')}: ${name} is off`, todo))
    const used = all.filter(({ used_by }) => used_by.length > 0).map(({ name }) => name)
    return worst(
      findings,
      ok(used.length > 0 ? `${title}: ${used.join(', ')} ready` : `${title}: no bus is configured`),
    )
  },
}
