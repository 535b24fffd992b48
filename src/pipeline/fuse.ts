// Fusion: compressed text → frame and frame → fact dict (docs/protocol.md section 1), the specification's component.
// Works alone: `new Fusion()`; with a registry folder templates survive a clean stop. Sent and received packets have
// separate templates. Its state changes only after a packet was built completely (X13). runEngine throws BAD_TEXT for a
// text that is not a compressed fact; decompress never throws and returns `{error, __packet_meta__}`; relay throws
// RELAY_UNDECODABLE.
import { type Clock, systemClock } from '../lib/clock'
import { OsError } from '../lib/errors'
import type { Files } from '../lib/files'
import { COMMAND, secureCommand } from '../wire/commands'
import { FRAME_OVERHEAD, sealFrame, writeHeader } from '../wire/frame'
import { Engine, type EngineOptions } from './compress'
import { bodyOf, isFull, type OpenedFrame, openFrame } from './receive'
import { type DecodedPacket, decodedPacket, type Received } from './received'
import { Receiver } from './receiver'
import { type KeptTemplate, TemplateRegistry } from './registry'
import { readSettings } from './settings'
import { PacketSlab } from './slab'
import { readFull } from './slots'
import { type DiffPolicy, fullOnlyUntil, readsClock, SendStore, SendTemplate } from './templates'
import { isPlainSignature, msToken, stripAid, templateText, tokenBytes } from './text'

/** Session keys, looked up per frame; null = plaintext (sending) or not decodable (receiving). */
export interface SessionKeys {
  outbound(aid: number): Uint8Array | null
  inbound(aid: number): Uint8Array | null
}

export interface FusionOptions extends EngineOptions {
  engine?: Engine
  /** AID of outgoing frames */
  localId?: number
  /** null = templates only in memory */
  registryDir?: string | null
  files?: Files
  keys?: SessionKeys | null
  policy?: DiffPolicy
  /** TIDs 1 to maxTid are used; 199 leaves 200–254 to backlog (X15) */
  maxTid?: number
  /** approximate limit of the bytes of all received templates */
  maxBytes?: number
}

export class Fusion {
  readonly engine: Engine
  readonly registry: TemplateRegistry | null
  readonly policy: DiffPolicy
  readonly maxTid: number
  readonly clock: Clock
  readonly slab = new PacketSlab()
  keys: SessionKeys | null
  localId: number
  readonly #send = new Map<number, SendStore>()
  readonly #maxBytes: number
  #decoder: Receiver | null = null
  /** the key of the current frame */
  #key: Uint8Array | null = null

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
    this.registry =
      dir === null ? null : new TemplateRegistry(dir, options.files, settings.registryIntervalMs, this.clock)
  }

  // ---- sending

  /** Templates of one AID we send as; loaded from the registry on first use. */
  sendStore(aid: number): SendStore {
    let store = this.#send.get(aid)
    if (store) return store
    const sticky = this.policy.diffBase === 'sticky'
    // the last run used these TIDs: with sticky they count as used before, and send only FULL for a while (decision 0016)
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

  /** The template of a signature; a new one is marked for the registry. */
  sendTemplate(aid: number, signature: string, count: number): SendTemplate {
    const store = this.sendStore(aid)
    const found = store.find(signature)
    if (found && found.count === count) return found
    this.registry?.learned(aid)
    return store.add(signature, count, this.policy, this.clock.mono())
  }

  /** `<assigned_id>;<text>` → frame. Strategy FULL forces a full packet, otherwise the changed slots decide. */
  runEngine(rawInputStr: string | Uint8Array, strategy = 'DIFF'): Buffer {
    const full = Buffer.from(rawInputStr as string)
    const text = full.toString('utf8')
    const bare = stripAid(text)
    const { signature, sensors, token } = readFull(bare)
    const slots = sensors.flatMap(({ meta, value }) => [meta, value])
    const ts = tokenBytes(token, true).readUIntBE(0, 6)
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

  /** Writes registry files of templates learned since the last call; cheap if there are none. */
  flush(): void {
    if (this.registry?.hasDirty) this.registry.flush(aid => this.#kept(aid))
  }

  /** Slots of the next DIFF, ascending; null if one is too long for a DIFF. */
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

  /** Created at the first received packet: an encoder needs none. */
  get #receiver(): Receiver {
    this.#decoder ??= new Receiver({
      engine: this.engine,
      clock: this.clock,
      maxBytes: this.#maxBytes,
      reference: true,
      inboundKey: aid => this.#key ?? this.keys?.inbound(aid) ?? null,
      registry: this.registry && {
        // the file of our own AID contains the sent templates; those we receive from ourselves stay in memory
        hasDirty: false,
        load: aid => (aid === this.localId ? [] : this.registry!.load(aid).filter(kept => kept.slots)),
        learned: aid => {
          if (aid !== this.localId) this.registry!.learned(aid)
        },
        flush: () => this.flush(),
      },
    })
    return this.#decoder
  }

  /** approximate bytes of the received templates */
  get weight(): number {
    return this.#decoder?.weight ?? 0
  }

  #decode(packet: Uint8Array, key: Uint8Array | null): Received {
    this.#key = key
    return this.#receiver.receive(packet)
  }

  /** Frame → fact dict with `__packet_meta__`, or `{error, __packet_meta__}`. `key` decrypts it instead of `keys`. */
  decompress(rawBytes: Uint8Array, key?: Uint8Array): DecodedPacket {
    return decodedPacket(this.#decode(rawBytes, key ?? null))
  }

  /** The packet as a FULL frame with its source's AID, TID and TS (X15). `sourceKey`: like `key` in decompress. */
  relay(packet: Uint8Array, sourceKey?: Uint8Array): Buffer {
    return this.relayed(packet, this.#decode(packet, sourceKey ?? null), this.#receiver, sourceKey)
  }

  /** The same for a packet that `receiver` has decoded. */
  relayed(packet: Uint8Array, received: Received, receiver: Receiver, sourceKey?: Uint8Array): Buffer {
    const { meta } = received
    if (received.kind === 'error') throw new OsError('RELAY_UNDECODABLE', received.message)
    const key = meta.secure ? (received.key ?? sourceKey ?? this.keys?.inbound(meta.source_aid!) ?? null) : null
    const opened = openFrame(packet, 0, () => key) as OpenedFrame & { ok: true }
    const { sourceAid: aid, tid, ts } = opened.header
    if (isFull(meta.base_cmd!)) return this.#frame(COMMAND.DATA_FULL, aid, tid, ts, bodyOf(opened), key)
    const kept = meta.late ? null : receiver.template(aid, tid)
    if (!kept?.slots) throw new OsError('RELAY_UNDECODABLE', `what TID=${meta.tid} held at that time is not kept`)
    const text = templateText(kept.signature, kept.slots, msToken(ts))
    // packets of C firmware stay recognizable, because their units are parsed differently
    const body = isPlainSignature(kept.signature) ? text : `${aid};${text}`
    return this.#frame(COMMAND.DATA_FULL, aid, tid, ts, Buffer.from(body, 'utf8'), key)
  }

  // ---- registry

  #kept(aid: number): KeptTemplate[] {
    const send = this.#send.get(aid)
    if (send) return send.all().map(keptOf)
    return this.#decoder?.templates(aid) ?? []
  }

  /** Clean stop: writes every template to the registry, with the mark that lets the next run use the values. */
  stop(): void {
    const heard = [...(this.#decoder?.bareAids() ?? [])].filter(aid => aid !== this.localId)
    const aids = new Set([...this.#send.keys(), ...heard])
    this.registry?.stop(aids, aid => this.#kept(aid))
  }
}

const keptOf = (t: SendTemplate): KeptTemplate => ({
  tid: t.tid,
  signature: t.signature,
  slots: t.known ? t.slotTexts() : null,
  ts: t.lastTs,
})

/** mask (slot 0 = lowest bit of its last byte), then length and bytes of each slot */
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
