// The key by which the allocator knows a device again (PROTOCOL §8), so that one that asks twice keeps its id. Pure; a
// request that says nothing about its device has the empty key and is never recognised.
import { pythonJson } from './pythonjson'

export type DeviceMeta = Readonly<Record<string, unknown>>

const NAMES = ['device_id', 'serial', 'mac', 'uuid'] as const

const textOf = (value: unknown): string =>
  typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean' ? String(value).trim() : ''

const isFilledObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && Object.keys(value).length > 0

export function deviceKey(meta: DeviceMeta | null): string {
  if (!isFilledObject(meta)) return ''
  const given = textOf(meta['device_key'])
  if (given) return given
  const inner = isFilledObject(meta['device_meta']) ? meta['device_meta'] : {}
  for (const name of NAMES) {
    const value = textOf(meta[name]) || textOf(inner[name])
    if (value) return `${name}:${value}`
  }
  return isFilledObject(meta['device_meta'])
    ? `meta:${pythonJson(inner, { sortKeys: true })}`
    : `request:${pythonJson(meta, { sortKeys: true })}`
}
