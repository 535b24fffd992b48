// A healthy machine, and faults that a machine may have, for tests of the doctor.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import type { Finding } from '../../../../src/commands/doctor/finding'
import type { Machine } from '../../../../src/commands/doctor/machine'
import { CHECKS, examine } from '../../../../src/commands/verbs/doctor'
import { ConfigStore } from '../../../../src/config'
import type { GatewayStatus } from '../../../../src/gateway/status'
import { fake, STATUS } from '../fake'

const root = mkdtempSync(join(tmpdir(), 'os-node-doctor-'))
after(() => rmSync(root, { recursive: true, force: true }))
let count = 0

export function store(values: object | string = {}): ConfigStore {
  const cwd = join(root, String(count++))
  mkdirSync(join(cwd, 'data'), { recursive: true })
  writeFileSync(join(cwd, 'Config.json'), typeof values === 'string' ? values : JSON.stringify(values))
  return ConfigStore.load({ cwd, env: {}, keep: false, tolerant: true })
}

export const GIB = 2 ** 30

/** A healthy machine. */
export const well = (change: Partial<Machine> = {}): Machine => ({
  nodeVersion: '22.1.0',
  user: 'pi',
  wall: () => Date.UTC(2027, 0, 1),
  read: () => undefined,
  measure: async () => undefined,
  list: () => [],
  exists: () => true,
  access: () => undefined,
  look: () => ({ state: 'fine' }),
  space: () => ({ free: 20 * GIB, total: 32 * GIB }),
  memory: () => ({ limit: GIB, free: GIB / 2 }),
  clock: () => ({ kernel: { synced: true, offset_us: 0, maxerror_us: 0 } }),
  addon: () => null,
  owner: async () => undefined,
  listen: async () => undefined,
  resolve: async () => '192.0.2.1',
  connects: async () => undefined,
  answers: async () => undefined,
  ...change,
})

export const calm = { safeMode: async () => ({ active: false, crashes: 0 }) }

export interface World {
  config?: object | string
  machine?: Partial<Machine>
  status?: object
  context?: object
}

export async function check(name: string, { config, machine, status, context }: World): Promise<Finding> {
  const { context: made } = fake(store(config), { ...calm, ...context, inGateway: status !== undefined })
  const gateway = status && { ...made.gateway!, status: () => ({ ...STATUS, ...status }) as GatewayStatus }
  const [found] = await examine({ ...made, ...(gateway && { gateway }) }, well(machine), { [name]: CHECKS[name]! })
  return found!
}

export function firmware(bits: string): World {
  const dir = '/sys/bus/platform/drivers/raspberrypi-firmware'
  return {
    machine: {
      list: path => (path === dir ? ['bind', 'soc:firmware'] : []),
      measure: async path => (path === `${dir}/soc:firmware/get_throttled` ? `${bits}\n` : undefined),
    },
  }
}

export function hwmon(alarm: string): World {
  const dir = '/sys/class/hwmon/hwmon1'
  return {
    machine: {
      list: path => (path === '/sys/class/hwmon' ? ['hwmon0', 'hwmon1'] : []),
      read: path => (path === `${dir}/name` ? 'rpi_volt\n' : undefined),
      measure: async path => (path === `${dir}/in0_lcrit_alarm` ? `${alarm}\n` : undefined),
    },
  }
}

export function thermal(millis: string): World {
  return {
    machine: {
      list: path => (path === '/sys/class/thermal' ? ['cooling_device0', 'thermal_zone0'] : []),
      measure: async () => millis,
    },
  }
}

export function board(bus: object): World {
  const report = { name: 'i2c1', kind: 'i2c', device: '/dev/i2c-1', ...bus }
  const made = { title: 'Raspberry Pi 4', pins: [], buses: [report], clashes: [], leds: {} }
  return { context: { hardware: async () => ({ lines: () => [], board: () => made }) } }
}
