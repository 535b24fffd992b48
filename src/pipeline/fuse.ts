// Fusion: compressed text → frame and frame → fact dict (docs/protocol.md section 1), the specification's component. Works alone:
// `new Fusion()`; with a registry folder templates outlive a clean stop. What goes out and what comes in keep separate
// templates. Its state changes only after a packet was built whole (X13). runEngine throws BAD_TEXT for a text that is no
// compressed fact; decompress never throws and answers `{error, __packet_meta__}`; relay throws RELAY_UNDECODABLE.
import { type Clock, systemClock } from '../lib/clock'
import { asOsError, OsError } from '../lib/errors'
import type { Files } from '../lib/files'
import { COMMAND, secureCommand } from '../wire/commands'
import { FRAME_OVERHEAD, type FrameHeader, sealFrame, writeHeader } from '../wire/frame'
import { Engine, type EngineOptions } from './compress'
import type { FactDict } from './fact'
import { isFirmware, readFirmware } from './firmware'
import {
  bodyOf,
  frameTime,
  isDiff,
  isFull,
  isHeart,
  openFrame,
  type PacketMeta,
  TextTemplate,
  templateOf,
} from './receive'
import { type KeptTemplate, padTid, Registry } from './registry'
import { readSettings } from './settings'
import { PacketSlab } from './slab'
import { type DiffPolicy, fullOnlyUntil, readsClock, SendStore, SendTemplate } from './templates'
import { isPlainSignature, isPlainText, msToken, splitText, stripAid, tokenBytes } from './text'

/** Session keys, looked up per frame; null = plaintext (out) or not decodable (in). */
export interface SessionKeys {
  outbound(aid: number): Uint8Array | null
  inbound(aid: number): Uint8Array | null
}

export interface FusionOptions extends EngineOptions {
  engine?: Engine
  /** AID of outgoing frames */
  localId?: number
  /** null = keep templates in memory only */
  registryDir?: string | null
  files?: Files
  keys?: SessionKeys | null
  policy?: DiffPolicy
  /** TIDs 1 to maxTid are used; 199 leaves 200–254 to backlog (X15) */
  maxTid?: number
  /** bytes all received templates may take, roughly */
  maxBytes?: number
}

export type DecodedPacket = FactDict & { __packet_meta__: PacketMeta; error?: unknown }

interface FrameText {
  value: string
  template: string
  /** of C firmware: units are plain UCUM */
  plain: boolean
  error?: string
}

/** AIDs whose received templates are kept in memory */
const MAX_SOURCES = 4096

export class Fusion {
  readonly engine: Engine
  readonly registry: Registry | null
  readonly policy: DiffPolicy
  readonly maxTid: number
  readonly clock: Clock
  readonly slab = new PacketSlab()
  keys: SessionKeys | null
  localId: number
  readonly #send = new Map<number, SendStore>()
  readonly #receive = new Map<number, Map<number, TextTemplate>>()
  readonly #newest = new WeakMap<TextTemplate, number>()
  /** bytes of all received templates, roughly */
  #weight = 0
  readonly #maxBytes: number

  constructor(configPath: string | null = null, options: FusionOptions = {}) {
    const settings = readSettings(configPath)
    this.clock = options.clock ?? systemClock
    this.engine = options.engine ?? new Engine(configPath, options)
    this.policy = options.policy ?? settings.policy
    this.maxTid = options.maxTid ?? 255
    this.#maxBytes = options.maxBytes ?? 32 << 20
    this.keys = options.keys ?? null
    this.localId = options.localId ?? settings.assignedId
    const dir = options.registryDir === undefined ? settings.registryDir : options.registryDir
    this.registry = dir === null ? null : new Registry(dir, options.files, settings.registryIntervalMs, this.clock)
  }

  // ---- sending

  /** Templates of one AID we send as; read from the registry on first use. */
  sendStore(aid: number): SendStore {
    let store = this.#send.get(aid)
    if (store) return store
    const sticky = this.policy.diffBase === 'sticky'
    // the last run used these TIDs: with sticky they count as used before, and send FULL only for a while (D6)
    store = new SendStore(this.maxTid, sticky ? this.maxTid + 1 : 1)
    for (const kept of this.registry?.load(aid) ?? []) {
      if (kept.tid < 1 || kept.tid > this.maxTid) continue
      const count = (kept.signature.match(/\x01:\x01/g) ?? []).length
      const template = store.put(new SendTemplate(kept.signature, kept.tid, count))
      template.lastTs = kept.ts
      if (sticky) template.fullOnlyUntil = fullOnlyUntil(this.policy, this.clock.mono())
      if (!kept.slots || kept.slots.length !== 2 * count || sticky) continue
      for (let i = 0; i < count; i++) {
        template.metas[i] = kept.slots[2 * i]!
        template.setValueText(i, kept.slots[2 * i + 1]!)
      }
      template.known = true
    }
    this.#send.set(aid, store)
    return store
  }

  /** The template of a signature; a new one is booked for the registry. */
  sendTemplate(aid: number, signature: string, count: number): SendTemplate {
    const store = this.sendStore(aid)
    const found = store.find(signature)
    if (found && found.count === count) return found
    this.registry?.learned(aid)
    return store.add(signature, count, this.policy, this.clock.mono())
  }

  /** `<assigned_id>;<text>` → frame. Strategy FULL forces a full packet, anything else lets the slots decide. */
  runEngine(rawInputStr: string | Uint8Array, strategy = 'DIFF'): Buffer {
    const full = Buffer.from(rawInputStr as string)
    const text = full.toString('utf8')
    const bare = stripAid(text)
    const { signature, slots } = templateOf(bare)
    const ts = tokenBytes(splitText(bare).token, true).readUIntBE(0, 6)
    const template = this.sendTemplate(this.localId, signature, slots.length / 2)
    const times = Float64Array.of(ts, readsClock(this.policy) ? this.clock.mono() : 0)
    const changed =
      strategy === 'FULL' || template.fullDue(this.policy, times) ? null : this.#changed(template, slots, times)
    const body = changed === null ? full : diffBody(changed, slots)
    const cmd = changed === null ? COMMAND.DATA_FULL : changed.length > 0 ? COMMAND.DATA_DIFF : COMMAND.DATA_HEART
    const packet = this.#frame(cmd, this.localId, template.tid, ts, body, this.keys?.outbound(this.localId) ?? null)
    this.#book(template, slots, changed === null, times)
    this.flush()
    return packet
  }

  /** Writes registry files of templates learned since; cheap when there are none. */
  flush(): void {
    if (this.registry?.hasDirty) this.registry.flush(aid => this.#kept(aid))
  }

  /** Slots the next DIFF carries, ascending; null when one is too long for a DIFF. */
  #changed(template: SendTemplate, slots: string[], times: Float64Array): number[] | null {
    const base = template.base(this.policy, times)
    const list: number[] = []
    for (let slot = 0; slot < slots.length; slot++) {
      const i = slot >> 1
      const same = slots[slot] === (slot & 1 ? template.valueText(i) : template.metas[i])
      const ordinal = slot & 1 ? template.valueOrdinals[i]! : template.metaOrdinals[i]!
      if (same && ordinal <= base) continue
      if (Buffer.byteLength(slots[slot]!, 'utf8') > 255) return null
      list.push(slot)
    }
    return list
  }

  #book(template: SendTemplate, slots: string[], full: boolean, times: Float64Array): void {
    const ordinal = template.ordinal + 1
    for (let i = 0; i < template.count; i++) {
      const meta = slots[2 * i]!
      if (template.metas[i] !== meta) {
        template.metas[i] = meta
        template.metaOrdinals[i] = ordinal
      }
      if (template.setValueText(i, slots[2 * i + 1]!)) template.valueOrdinals[i] = ordinal
    }
    template.sent(full, times)
  }

  #frame(cmd: number, aid: number, tid: number, ts: number, body: Uint8Array, key: Uint8Array | null): Buffer {
    const at = this.slab.reserve(FRAME_OVERHEAD + body.length)
    const out = this.slab.chunk
    const start = writeHeader(out, at, key ? secureCommand(cmd) : cmd, aid, tid, ts)
    out.set(body, start)
    return this.slab.take(at, sealFrame(out, at, start, start + body.length, key))
  }

  // ---- receiving

  #templates(aid: number): Map<number, TextTemplate> {
    let templates = this.#receive.get(aid)
    if (templates) {
      this.#receive.delete(aid)
      this.#receive.set(aid, templates)
      return templates
    }
    templates = new Map()
    // the file of our own AID holds what we send; what we hear from ourselves stays in memory
    for (const { tid, signature, slots, ts } of aid === this.localId ? [] : (this.registry?.load(aid) ?? [])) {
      if (!slots) continue
      const template = new TextTemplate(signature, slots)
      this.#newest.set(template, ts)
      templates.set(tid, template)
    }
    if (this.#receive.size >= MAX_SOURCES) this.#forgetOldest()
    this.#receive.set(aid, templates)
    for (const template of templates.values()) this.#weight += template.weight
    return templates
  }

  #forgetOldest(): void {
    const [aid, templates] = this.#receive.entries().next().value!
    this.#receive.delete(aid)
    for (const template of templates.values()) this.#weight -= template.weight
  }

  /** bytes the received templates take, roughly */
  get weight(): number {
    return this.#weight
  }

  /** Frame → fact dict with `__packet_meta__`, or `{error, __packet_meta__}`. `key` deciphers it in place of `keys`. */
  decompress(rawBytes: Uint8Array, key?: Uint8Array): DecodedPacket {
    const inbound = key ? () => key : this.keys ? (aid: number) => this.keys!.inbound(aid) : null
    const opened = openFrame(rawBytes, this.clock.wall(), inbound)
    const { meta } = opened
    if (!opened.ok) return failed(opened.error, meta)
    try {
      const text = this.#text(opened.header, bodyOf(opened), meta)
      if (text.error) return failed(text.error, meta)
      const fact = this.engine.decompress(text.value, text.plain)
      if (isFull(meta.base_cmd!) && text.template !== '') this.#learn(opened.header, text, meta)
      const ms = frameTime(opened.header.ts, meta.timestamp_raw!)
      if (ms !== opened.header.ts && fact.t_raw !== undefined) {
        fact.t_raw = ms
        fact.t = Math.floor(ms / 1000)
      }
      return { ...fact, __packet_meta__: meta }
    } catch (thrown) {
      return failed(asOsError(thrown, 'BAD_PACKET').message, meta)
    }
  }

  /** The text a frame stands for, without `<aid>;`, and of a FULL the text its template is learned from, '' for none. */
  #text({ sourceAid: aid, tid, ts }: FrameHeader, body: Uint8Array, meta: PacketMeta): FrameText {
    const base = meta.base_cmd!
    if (isFull(base)) {
      const text = Buffer.from(body).toString('utf8')
      if (meta.secure && !text.startsWith(`${aid};`) && !isPlainText(text)) {
        // noise: a wrong key that agrees with the checksum by chance
        meta.crc8_ok = false
        return { value: '', template: '', plain: false, error: 'CRC8 mismatch' }
      }
      const firmware = readFirmware(text, aid, meta.timestamp_raw!)
      const plain = isFirmware(text, ts)
      if (firmware) return { value: firmware.text, template: firmware.template ?? '', plain }
      const value = stripAid(text)
      return { value, template: value, plain }
    }
    const failed = (error: string): FrameText => ({ value: '', template: '', plain: false, error })
    if (!isDiff(base) && !isHeart(base)) return failed(`Unknown Command 0x${meta.cmd!.toString(16).toUpperCase()}`)
    const template = this.#templates(aid).get(tid)
    const name = base.toString(16).toUpperCase()
    if (!template) return failed(`Template ${padTid(tid)} missing for 0x${name}`)
    if (template.slots.length === 0) return failed(`No cached values for TID=${padTid(tid)}`)
    if (isDiff(base)) template.apply(body, meta.secure)
    this.#newest.set(template, meta.timestamp_raw!)
    return {
      value: template.text(msToken(meta.timestamp_raw!)),
      template: '',
      plain: isPlainSignature(template.signature),
    }
  }

  #learn({ sourceAid: aid, tid }: FrameHeader, { template, plain }: FrameText, meta: PacketMeta): void {
    const templates = this.#templates(aid)
    const learned = templateOf(template, plain)
    const before = templates.get(tid)
    meta.template_learned = true
    templates.set(tid, learned)
    this.#weight += learned.weight - (before?.weight ?? 0)
    while (this.#weight > this.#maxBytes && this.#receive.size > 1) this.#forgetOldest()
    if (this.#weight > this.#maxBytes) {
      templates.clear()
      templates.set(tid, learned)
      this.#weight = learned.weight
    }
    this.#newest.set(learned, meta.timestamp_raw!)
    if (before?.signature === learned.signature || aid === this.localId || !this.registry) return
    this.registry.learned(aid)
    this.flush()
  }

  /** The packet as a FULL frame under its source's AID, TID and TS (X15). `sourceKey`: as `key` in decompress. */
  relay(packet: Uint8Array, sourceKey?: Uint8Array): Buffer {
    const inbound = sourceKey ? () => sourceKey : this.keys ? (aid: number) => this.keys!.inbound(aid) : null
    const opened = openFrame(packet, this.clock.wall(), inbound)
    if (!opened.ok) throw new OsError('RELAY_UNDECODABLE', opened.error)
    const { header, meta } = opened
    const body = bodyOf(opened)
    let full = body
    try {
      const text = this.#text(header, body, meta)
      if (text.error) throw new OsError('RELAY_UNDECODABLE', text.error)
      this.engine.decompress(text.value, text.plain)
      if (isFull(meta.base_cmd!)) {
        if (text.template !== '') this.#learn(header, text, meta)
      } else full = Buffer.from(text.plain ? text.value : `${header.sourceAid};${text.value}`, 'utf8')
    } catch (thrown) {
      const cause = asOsError(thrown)
      throw cause.code === 'RELAY_UNDECODABLE' ? cause : new OsError('RELAY_UNDECODABLE', cause.message, { cause })
    }
    const key = meta.secure ? (inbound?.(header.sourceAid) ?? null) : null
    return this.#frame(COMMAND.DATA_FULL, header.sourceAid, header.tid, header.ts, full, key)
  }

  /** A text with its `<aid>;` as a FULL frame of any source; no template is touched. */
  fullFrame(aid: number, tid: number, ts: number, text: string, key: Uint8Array | null): Buffer {
    return this.#frame(COMMAND.DATA_FULL, aid, tid, ts, Buffer.from(text, 'utf8'), key)
  }

  // ---- registry

  #kept(aid: number): KeptTemplate[] {
    const send = this.#send.get(aid)
    if (send) return send.all().map(keptOf)
    const templates = [...(this.#receive.get(aid) ?? [])].sort(([a], [b]) => a - b)
    return templates.map(([tid, t]) => ({ tid, signature: t.signature, slots: t.slots, ts: this.#newest.get(t) ?? -1 }))
  }

  /** Clean stop: every template goes to the registry, with the mark that lets the next run use the values. */
  stop(): void {
    const aids = new Set(
      [...this.#send.keys(), ...this.#receive.keys()].filter(a => this.#send.has(a) || a !== this.localId),
    )
    this.registry?.stop(aids, aid => this.#kept(aid))
  }
}

const keptOf = (t: SendTemplate): KeptTemplate => ({
  tid: t.tid,
  signature: t.signature,
  slots: t.known ? t.slotTexts() : null,
  ts: t.lastTs,
})

const failed = (error: string, meta: PacketMeta): DecodedPacket =>
  ({ error, __packet_meta__: meta }) as unknown as DecodedPacket

/** mask, slot 0 = lowest bit of its last byte, then length and bytes of each slot */
function diffBody(changed: number[], slots: string[]): Buffer {
  if (changed.length === 0) return Buffer.alloc(0)
  const mask = Buffer.alloc(Math.ceil(slots.length / 8))
  const parts: Buffer[] = [mask]
  for (const slot of changed) {
    mask[mask.length - 1 - (slot >> 3)]! |= 1 << (slot & 7)
    const text = Buffer.from(slots[slot]!, 'utf8')
    parts.push(Buffer.of(text.length), text)
  }
  return Buffer.concat(parts)
}
