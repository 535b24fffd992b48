// The key by which the allocator recognises a device, so that a repeated request gets the same id. Pure; a request without
// metadata has the empty key and is never recognised.

import { OsError } from '../../lib/errors'
import { isObject } from '../../lib/objects'
import { pythonJson } from '../pythonjson'

export type DeviceMeta = Readonly<Record<string, unknown>>

const NAMES = ['device_id', 'serial', 'mac', 'uuid'] as const

/** Writes unpaired surrogates, which JSON may contain but UTF-8 cannot, as their escapes, so that they stay distinct. */
function textOf(value: unknown): string {
  if (typeof value !== 'string' && typeof value !== 'number' && typeof value !== 'boolean') return ''
  const text = String(value).trim()
  return /\p{Surrogate}/u.test(text) ? JSON.stringify(text).slice(1, -1) : text
}

const isFilledObject = (value: unknown): value is Record<string, unknown> =>
  isObject(value) && Object.keys(value).length > 0

export function deviceKey(meta: DeviceMeta | null): string {
  if (!isFilledObject(meta)) return ''
  const key = textOf(meta['device_key'])
  if (key) return key
  const [name, value] = nameOf(meta)
  if (value) return `${name}:${value}`
  return isFilledObject(meta['device_meta'])
    ? `meta:${pythonJson(meta['device_meta'], { sortKeys: true })}`
    : `request:${pythonJson(meta, { sortKeys: true })}`
}

function nameOf(meta: DeviceMeta): [name: string, value: string] {
  const inner = isFilledObject(meta['device_meta']) ? meta['device_meta'] : {}
  for (const name of NAMES) {
    const value = textOf(meta[name]) || textOf(inner[name])
    if (value) return [name, value]
  }
  return ['', '']
}

/** Whether the metadata identify the device: a model, which others share, and UNKNOWN are no name (X39). */
export function isNamed(meta: DeviceMeta): boolean {
  const name = textOf(meta['device_key']) || nameOf(meta)[1]
  return name !== '' && name.toUpperCase() !== 'UNKNOWN'
}

/** The device's metadata as JSON. Throws BAD_REQUEST for values that JSON cannot represent. */
export function metaText(meta: DeviceMeta | null): string {
  try {
    return JSON.stringify(meta ?? {})
  } catch (cause) {
    throw new OsError('BAD_REQUEST', `meta is not JSON: ${(cause as Error).message.split('\n')[0]}`, { cause })
  }
}
