// The options of the receiver, and its result for one frame.
import type { Clock } from '../lib/clock'
import type { Files } from '../lib/files'
import type { Engine } from './compress'
import { type Fact, type FactDict, factToDict } from './fact'
import type { InboundKeys, PacketMeta } from './receive'
import type { TemplateFiles } from './registry'
import type { UnitDialect, WireUnits } from './wireunit'

export interface ReceiverOptions {
  precision?: number
  dialect?: UnitDialect
  units?: WireUnits
  engine?: Engine
  clock?: Clock
  files?: Files
  /** null = templates only in memory */
  registryDir?: string | null
  /** session keys of a source, null when there are none */
  inboundKey?: InboundKeys | null
  maxSources?: number
  /** computes the checksums of a batch; left out: one by one */
  checks?: FrameChecks | null
  /** ms for a frame of that AID without a time, later than its previous one; default: the clock, moved forward if necessary */
  stamp?: (aid: number) => number
  /** ms: a bare frame with a later time changes no template; default: no limit (X36) */
  latest?: () => number
  /** approximate limit of the bytes of all templates */
  maxBytes?: number
  /** folder for templates that do not fit into memory; left out: they are forgotten */
  spillDir?: string | null
  /** bytes of files in that folder; left out: no limit */
  spillBytes?: number
}

/**
 * Checks consecutive frames in `bytes`, each up to its end: 1 for each that is plaintext data of one route with valid
 * checksums (plainFrame). Valid until the next call.
 */
export type FrameChecks = (bytes: Uint8Array, ends: Int32Array, count: number) => Uint8Array

/** Receives the results of a batch of frames. */
export interface FactSink {
  /** frame `k` of the batch: a `fact` of Received without problems, not late and not in the future */
  fact(k: number, fact: Fact, advanced: boolean, reshaped: boolean): void
  /** every other frame */
  other(k: number, received: Received): void
}

/** Options of a receiver that is part of Fusion. */
export interface PartOptions extends ReceiverOptions {
  /** instead of `registryDir`: a registry that the caller stops */
  registry?: TemplateFiles | null
  /** decodes like the reference: a frame counts as newer than all before it, and a DIFF body is read as far as it goes */
  reference?: boolean
}

export type ReceiveCode = 'BAD_PACKET' | 'NO_KEY' | 'BAD_KEY' | 'UNKNOWN_COMMAND' | 'NEED_FULL' | 'LATE_DROPPED'

export type Received =
  | {
      readonly kind: 'fact'
      readonly fact: Fact
      readonly meta: PacketMeta
      /** newer than its template's previous frame, so the template has advanced */
      readonly advanced: boolean
      /** its template is new, or the state or unit of a sensor changed */
      readonly reshaped: boolean
      /** only part of it could be decoded: a FULL is needed (X33) */
      readonly needFull: boolean
      /** the session key that decrypted it; null for plaintext, and for an empty body, which every key decrypts */
      readonly key: Uint8Array | null
    }
  | {
      readonly kind: 'error'
      readonly code: ReceiveCode
      readonly message: string
      readonly meta: PacketMeta
      readonly needFull: boolean
    }

export type DecodedPacket = FactDict & { __packet_meta__: PacketMeta; error?: unknown }

/** In the library's form. */
export function decodedPacket(received: Received): DecodedPacket {
  const reported = received.kind === 'fact' ? factToDict(received.fact) : { error: received.message }
  return { ...reported, __packet_meta__: received.meta } as DecodedPacket
}

export interface ReceiverCounters {
  facts: number
  late: number
  lateDropped: number
  errors: number
  unitAmbiguous: number
  /** templates evicted because there were too many sources or too much data */
  forgotten: number
}
