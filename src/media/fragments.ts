// The schema fragments of the network media: the options of every medium, for dispatch (RESOURCES.*_config), uplinks
// and receivers. Only the small option files are loaded here, never a driver.
//
// In a link a default is shown but not filled in, so that the file contains only what was configured; the driver fills
// it in.
import * as v from 'valibot'
import { type AnySchema, allowed, type Fragment, openSchema, type PlacedMeta } from '../config'
import type { FieldMeta } from '../config/fields'
import { mediumInfo } from '../links/registry'
import { mqttOptions } from './mqtt/mqtt-options'
import { quicOptions } from './quic/quic-options'
import { tcpOptions } from './tcp/tcp-options'
import { udpOptions } from './udp/udp-options'

/** The options of media by name. */
export type MediaOptions = Readonly<Record<string, { readonly entries: object }>>

const NETWORK: MediaOptions = {
  UDP: udpOptions,
  TCP: tcpOptions,
  QUIC: quicOptions,
  MQTT: mqttOptions,
}

/** Written by every link, or set by the code that creates the medium. */
const COMMON = new Set(['mode', 'host', 'port', 'listen_host'])
/** already in the schema for dispatch, for every medium */
const OF_DISPATCH = new Set(['mode', 'listen_host'])
const PLACED: Readonly<Record<string, readonly string[]>> = {
  udp: ['host', 'port'],
  tcp: ['host', 'port'],
  quic: ['host', 'port'],
  mqtt: ['host', 'port'],
  uart: ['port', 'baudrate'],
  rs485: ['port', 'baudrate'],
  bluetooth: ['port'],
}
/** already in the schema of an uplink, for every medium */
const OF_UPLINKS = new Set(['delivery'])

interface Option {
  readonly key: string
  /** schemas of the media that have it, without equal ones */
  readonly schemas: readonly AnySchema[]
  readonly meta: FieldMeta
  readonly media: string[]
}

/** The metadata of the first; an option that only one side of one medium has may be used by the other side of the next. */
const bothSides = ({ side, ...first }: FieldMeta, next: FieldMeta): FieldMeta =>
  side !== undefined && side === next.side ? { ...first, side } : first

/**
 * Every option once. A key of several media has the help of the first, and accepts what any of them allows: the driver
 * of the link's own medium checks it again.
 */
function options(all: MediaOptions): Option[] {
  const found = new Map<string, Option>()
  for (const [medium, { entries }] of Object.entries(all)) {
    for (const [key, schema] of Object.entries(entries) as [string, AnySchema][]) {
      if (COMMON.has(key)) continue
      const other = found.get(key)
      const others = other?.schemas ?? []
      const schemas = others.some(one => holds(one, schema))
        ? others
        : [...others.filter(one => !holds(schema, one)), schema]
      const meta = other ? bothSides(other.meta, metaOf(schema)) : metaOf(schema)
      found.set(key, { key, schemas, meta, media: [...(other?.media ?? []), medium] })
    }
  }
  return [...found.values()]
}

/** Whether `wide` allows everything that `narrow` does: the same schema, or numbers with wider bounds. */
function holds(wide: AnySchema, narrow: AnySchema): boolean {
  if (allowed(wide) === allowed(narrow)) return true
  if (openSchema(wide).core.type !== 'number' || openSchema(narrow).core.type !== 'number') return false
  const bound = (schema: AnySchema, kind: string): number =>
    Number(openSchema(schema).pipe.find(item => item.type === kind)?.requirement)
  return (
    bound(wide, 'min_value') <= bound(narrow, 'min_value') && bound(wide, 'max_value') >= bound(narrow, 'max_value')
  )
}

/** The checks of a schema, without its default and its help. */
function checksOf(schema: AnySchema): [v.GenericSchema] {
  const { core } = openSchema(schema)
  return (core.pipe ?? [core]).filter(item => item.type !== 'metadata') as unknown as [v.GenericSchema]
}

/** The option as a link may have it: with its default as text, and the media that have it. */
function inLink({ schemas, meta, media }: Option): v.GenericSchema {
  const [only, ...more] = schemas
  const described: FieldMeta & PlacedMeta = {
    ...meta,
    media,
    ...(media.length === 1 && { standard: openSchema(only!).standard }),
  }
  // a single pipe, because bounds are read from it
  const checks =
    more.length === 0 ? checksOf(only!) : ([v.union(schemas.map(one => v.pipe(...checksOf(one))))] as [v.GenericSchema])
  return v.optional(v.pipe(...checks, v.metadata(described as never)))
}

/** For ConfigStore.load. `more`: options of the media in drivers/. */
export function mediaFragments(more: MediaOptions = {}): Fragment[] {
  const all = { ...NETWORK, ...more }
  const known = options(all)
  const lists = [
    { at: 'gateway.uplinks[]', side: 'send', taken: OF_UPLINKS },
    { at: 'gateway.receivers[]', side: 'listen', taken: new Set<string>() },
  ]
  const links = lists.flatMap(({ at, side, taken }) =>
    known
      .filter(({ key, meta }) => !taken.has(key) && (meta.side ?? side) === side)
      .map(option => ({ at: `${at}.${option.key}`, schema: inLink(option) })),
  )
  const dispatch = Object.entries(all).flatMap(([medium, { entries }]) => {
    const { section, options_name } = mediumInfo(medium)!
    return (Object.entries(entries) as [string, AnySchema][])
      .filter(
        ([key, schema]) =>
          !OF_DISPATCH.has(key) && !PLACED[options_name]?.includes(key) && metaOf(schema).side !== 'listen',
      )
      .map(([key, schema]) => ({ at: `RESOURCES.${section}.${options_name}.${key}`, schema: schema as never }))
  })
  return [...links, ...dispatch]
}

const metaOf = (schema: AnySchema): FieldMeta =>
  openSchema(schema).pipe.find(item => item.type === 'metadata')?.metadata as never
