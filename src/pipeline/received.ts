// What the receiver is made with, and what it says of one frame.
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
  /** null = templates live in memory only */
  registryDir?: string | null
  /** session keys of a source, null when there are none */
  inboundKey?: InboundKeys | null
  maxSources?: number
  /** how the sums of a batch are done; left out: one by one */
  checks?: FrameChecks | null
  /** ms for a frame of that AID without a time, later than the last it gave; by default the clock, moved on where it must be */
  stamp?: (aid: number) => number
  /** ms: a bare frame of a later time moves no template; by default none is too late (X36) */
  latest?: () => number
  /** bytes all templates may take, roughly */
  maxBytes?: number
  /** folder where templates wait that find no room; left out: they are forgotten */
  spillDir?: string | null
  /** bytes of files in that folder; left out: no bound */
  spillBytes?: number
}

/**
 * Looks at frames that are one after another in `bytes`, each up to its end: 1 for each that is plaintext data of one route whose sums
 * are right (plainFrame). Valid until the next call.
 */
export type FrameChecks = (bytes: Uint8Array, ends: Int32Array, count: number) => Uint8Array

/** Who takes what a batch of frames says. */
export interface FactSink {
  /** frame `k` of the batch: as a `fact` of Received without problems, late or ahead */
  fact(k: number, fact: Fact, advanced: boolean, reshaped: boolean): void
  /** every other frame */
  other(k: number, received: Received): void
}

/** Of a receiver that is a part of Fusion. */
export interface PartOptions extends ReceiverOptions {
  /** in place of `registryDir`: a registry that the caller stops */
  registry?: TemplateFiles | null
  /** as the reference decodes: a frame counts as newer than all before it, and a DIFF body is read as far as it goes */
  reference?: boolean
}

export type ReceiveCode = 'BAD_PACKET' | 'NO_KEY' | 'BAD_KEY' | 'UNKNOWN_COMMAND' | 'NEED_FULL' | 'LATE_DROPPED'

export type Received =
  | {
      readonly kind: 'fact'
      readonly fact: Fact
      readonly meta: PacketMeta
      /** it is newer than what its template had, which has moved */
      readonly advanced: boolean
      /** its template is a new one, or the state or unit of a sensor changed */
      readonly reshaped: boolean
      /** only a part of it could be decoded: a FULL is needed (X33) */
      readonly needFull: boolean
      /** the session key that deciphered it; null for plaintext, and for an empty body, which every key deciphers */
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

/** As the library reports it. */
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
  /** templates given up because there were too many sources or too much of them */
  forgotten: number
}
