// The bytes of the flash log, version 1. They are final: a change is a new version number in the segment header.
// All numbers little-endian. Strings are UTF-8 with a length before them: one byte below 0x80, else two bytes
// (0x80 | high 7 bits, low 8 bits), at most 32767 bytes.
//
// Folder: `<first_seq, 16 digits>.seg`, one file per segment; `damaged/` contains pieces cut out of segments.
//
// Segment = header, then records back to back. Zeros may follow the last one of a file that was not closed.
//   0  8  magic "OSNLOG1\n"
//   8  u32 header length, CRC included
//  12  u32 boot
//  16  u64 first_seq: no record of this file has a smaller seq
//  24  u64 end_seq: the range [first_seq, end_seq) is reserved for this file (always first_seq + RESERVE)
//  32  u64 last seq written to the segment before, 0 when there is none: shows what a truncated file lost
//  40  u64 wall_ms when the file was made
//  48  u64 reserved, 0
//  56  …  JSON: the state at this point (cursors, counters, losses), so that older segments can go
//   …  u32 CRC-32C of all header bytes before
//
// Record = 36 bytes + body
//   0  u8  mark 0xC5: where a reader looks for the next record after damage
//   1  u24 record length, mark and CRC included
//   4  u32 boot
//   8  u64 seq
//  16  u8  kind
//  17  u8  flags (fact: which parts follow; boot: 1 = clean stop; cursor: 1 = a counter, not a place in the log;
//          packet: 1 = its time is ahead)
//  18  u48 mono_ms
//  24  u48 wall_ms
//  30  u8  time quality
//  31  u8  medium (table below; 255 = name at the start of the body)
//  32  …   body
//   …  u32 CRC-32C of all bytes before
//
// Body of a fact: aid u32, t_raw f64 (ms), id, state, [rssi f64] [snr f64] [address] [u8 n, n × u32 route], u16 sensors ×
// { id, status, unit, u8 has value, [f64] }, [u8 n, n × { key, text } extras]
// [u16 n, n bytes of the packet] [u8 marks]; brackets as the flags say.
// boot: version. clock: true wall_ms f64, offset_ms f64, source. cursor: name, u64 seq.
// loss: 4 × u64 totals in the order of REASONS, u16 n, n × { u8 reason, u64 from, u64 to, u32 records }.
// packet: the bytes of the packet, up to the CRC.
import type { LossReason, RecordKind, RecordTimeQuality } from './record'

export const MAGIC = 'OSNLOG1\n'
export const SEGMENT_FIXED = 56
/** seqs reserved by one segment: far more than it can contain, so that RAM may be days ahead of a full disk */
export const RESERVE = 2 ** 24

export const MARK = 0xc5
export const RECORD_HEADER = 32
export const RECORD_OVERHEAD = 36
/** largest record, bytes; a frame of the protocol is far smaller */
export const MAX_RECORD = 256 * 1024

export const AT_BOOT = 4
export const AT_SEQ = 8
export const AT_KIND = 16
export const AT_FLAGS = 17
export const AT_MONO = 18
export const AT_WALL = 24
export const AT_QUALITY = 30
export const AT_MEDIUM = 31

export const KINDS: readonly RecordKind[] = ['fact', 'boot', 'clock', 'cursor', 'loss', 'packet']
export const KIND_FACT = 0
export const KIND_BOOT = 1
export const KIND_CLOCK = 2
export const KIND_CURSOR = 3
export const KIND_LOSS = 4
export const KIND_PACKET = 5

export const QUALITIES: readonly RecordTimeQuality[] = ['unknown', 'unsynced', 'synced']
export const REASONS: readonly LossReason[] = ['damaged', 'torn', 'dropped', 'overflow']

export const MEDIA: readonly string[] = [
  '',
  'local',
  'UDP',
  'TCP',
  'QUIC',
  'MQTT',
  'UART',
  'RS485',
  'CAN',
  'LoRa',
  'Bluetooth',
  'IWIP',
  'UIP',
]
export const MEDIUM_NAMED = 255

export const FLAG_RSSI = 1
export const FLAG_SNR = 2
export const FLAG_ADDRESS = 4
export const FLAG_ROUTE = 8
export const FLAG_EXTRAS = 16
/** of a fact: it is sent first */
export const FLAG_ALARM = 32
export const FLAG_FRAME = 64
/** of a fact: its body ends with a byte of marks */
export const FLAG_MARKS = 128
/** the fact's time is further ahead than receiver.max_future_s (X36) */
export const MARK_FUTURE = 1
/** decoded with a template that was rebuilt from the log (X33) */
export const MARK_REBUILT = 2
export const FLAG_STOP = 1
export const FLAG_COUNTER = 1
/** of a packet: its time is further ahead than receiver.max_future_s (X36) */
export const FLAG_FUTURE = 1

const HIGH = 2 ** 32

/** u64 below 2^53 as a number. */
export const readU64 = (b: Buffer, at: number): number => b.readUInt32LE(at) + b.readUInt32LE(at + 4) * HIGH

export const writeU64 = (b: Buffer, value: number, at: number): void => {
  b.writeUInt32LE(value % HIGH, at)
  b.writeUInt32LE(Math.floor(value / HIGH), at + 4)
}

/** Length of the record at `at`; the caller has checked the mark. */
export const recordLength = (b: Uint8Array, at: number): number => b[at + 1]! | (b[at + 2]! << 8) | (b[at + 3]! << 16)
