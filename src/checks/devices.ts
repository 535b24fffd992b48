// Shared by the checks of this machine: the devices in the configuration, who may use them, and whether the native
// addon loads. It opens and changes nothing, and never throws.
import { accessSync, constants, existsSync } from 'node:fs'
import { userInfo } from 'node:os'
import type { ConfigStore } from '../config'
import { asOsError, errno, orElse } from '../lib/errors'
import { groupOf } from '../lib/writable'
import { mediumEnabled } from '../links/enabled'
import { MEDIA } from '../links/registry'
import { native } from '../native'

/** Why the native addon does not load; null if it loads. */
export function addonProblem(): string | null {
  try {
    native()
    return null
  } catch (error) {
    return asOsError(error).message
  }
}

/** Whether this user may read and write a device, and if not, the group that may. */
export type DeviceAccess = { state: 'fine' | 'missing' } | { state: 'forbidden'; group: string | undefined }

/** The user this process runs as. */
export const userName = (): string =>
  // a user id may have no name
  orElse(undefined, () => userInfo().username) ?? String(process.getuid?.() ?? 'of os-node')

/** Why this user may not read and write a file, as errno; undefined if it may. Never throws. */
export function accessProblem(path: string): string | undefined {
  try {
    accessSync(path, constants.R_OK | constants.W_OK)
    return undefined
  } catch (error) {
    return errno(error) ?? 'unknown reason'
  }
}

/** Whether this user may read and write a device. Never throws. */
export function deviceAccess(path: string): DeviceAccess {
  if (!existsSync(path)) return { state: 'missing' }
  const problem = accessProblem(path)
  if (problem === undefined) return { state: 'fine' }
  return problem === 'ENOENT' ? { state: 'missing' } : { state: 'forbidden', group: groupOf(path) }
}

/** Device files in the configuration, with the links that name them. Disabled media need nothing. */
export function configuredDevices(config: ConfigStore): Map<string, string[]> {
  const found = new Map<string, string[]>()
  const note = (path: string, owner: string): void => {
    found.set(path, [...new Set([...(found.get(path) ?? []), owner])])
  }
  const visit = (value: unknown, owner: string): void => {
    if (typeof value === 'string') {
      if (/^\/dev\/[\w./:-]+$/.test(value)) note(value, owner)
    } else if (typeof value === 'object' && value !== null) for (const item of Object.values(value)) visit(item, owner)
  }
  const { RESOURCES, gateway } = config.config
  for (const { name, options_name } of MEDIA)
    if (mediumEnabled(config, name))
      for (const options of [RESOURCES.physical_config, RESOURCES.transport_config] as Record<string, unknown>[])
        visit(options[options_name], name)
  for (const link of [...gateway.uplinks, ...gateway.receivers, ...(gateway.sources ?? [])]) visit(link, link.name)
  // the number of an I2C bus means its device file
  for (const { name, bus } of (gateway.sources ?? []) as { name: string; bus?: unknown }[])
    if (Number.isInteger(bus)) note(`/dev/i2c-${bus}`, name)
  return found
}

/** A device that the configuration names. */
export interface DeviceFinding {
  readonly path: string
  /** the links that name it */
  readonly owners: readonly string[]
  /** what it lacks; absent if it can be used */
  readonly kind?: 'device' | 'permission'
  readonly message: string
  readonly group?: string
}

/** Every configured device and what it lacks. `look` is the file system. */
export const deviceFindings = (config: ConfigStore, look = deviceAccess): DeviceFinding[] =>
  [...configuredDevices(config)].map(([path, owners]) => {
    const seen = look(path)
    if (seen.state === 'missing') return { path, owners, kind: 'device', message: `${path} does not exist` }
    if (seen.state !== 'forbidden') return { path, owners, message: `${path} can be used` }
    const message = `no permission to use ${path} (group ${seen.group ?? 'unknown'})`
    return { path, owners, kind: 'permission', message, group: seen.group }
  })
