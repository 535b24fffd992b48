// Converts changes of the allocator's journal and records of its file to text and back, tolerating any content of a file.
// Pure.
import { isObject } from '../../lib/objects'
import type { IdChange, IdRecord } from './state'

export const isId = (value: unknown): value is number =>
  typeof value === 'number' && Number.isInteger(value) && value > 0 && value <= 0xffff_ffff

/** 1e999 in a file is parsed as infinity, which cannot be written back */
const isSeconds = (value: unknown): value is number => Number.isFinite(value)

/** A record of a file with missing fields filled in; null if it is not valid. */
export function recordFrom(value: unknown): IdRecord | null {
  if (!isObject(value)) return null
  const seconds = (key: string): number => {
    const number = value[key]
    return isSeconds(number) ? number : 0
  }
  return {
    meta: isObject(value['meta']) ? JSON.stringify(value['meta']) : '{}',
    ts: seconds('ts'),
    last_seen: seconds('last_seen'),
    lease_expires_at: seconds('lease_expires_at'),
    device_key: typeof value['device_key'] === 'string' ? value['device_key'] : '',
    state: value['state'] === 'offline' || value['state'] === 'offered' ? value['state'] : 'active',
    offline_since: seconds('offline_since'),
    ...(typeof value['addr'] === 'string' && { addr: value['addr'] }),
    ...(typeof value['granted_to'] === 'string' && { granted_to: value['granted_to'] }),
  }
}

/** JSON of a change, one line; built by hand, since a flood of new devices writes one per device. */
export function changeText(change: IdChange): string {
  if (!('set' in change)) return JSON.stringify(change)
  const { meta, ts, last_seen, lease_expires_at, device_key, state, offline_since, addr, granted_to } = change.record
  const end = `${addr ? `,"addr":${JSON.stringify(addr)}` : ''}${granted_to ? `,"granted_to":${JSON.stringify(granted_to)}` : ''}}}`
  return `{"set":${change.set},"record":{"meta":${meta},"ts":${ts},"last_seen":${last_seen},"lease_expires_at":${lease_expires_at},"device_key":${JSON.stringify(device_key)},"state":"${state}","offline_since":${offline_since}${end}`
}

/** A change of a journal; null if it is not valid. */
export function changeFrom(value: unknown): IdChange | null {
  if (!isObject(value)) return null
  if (isId(value['set'])) {
    const record = recordFrom(value['record'])
    return record && { set: value['set'], record }
  }
  if (isId(value['free'])) return { free: value['free'], ...(value['back'] === true && { back: true }) }
  if (Array.isArray(value['grant']))
    return {
      grant: value['grant'].filter(isId),
      until: isSeconds(value['until']) ? value['until'] : 0,
      fresh: value['fresh'] === true,
    }
  const { touch, last_seen, lease_expires_at } = value
  if (!isId(touch) || !isSeconds(last_seen) || !isSeconds(lease_expires_at)) return null
  return {
    touch,
    last_seen,
    lease_expires_at,
    ...(typeof value['addr'] === 'string' && { addr: value['addr'] }),
  }
}
