// Options of the CAN medium, as in Config.json: meaning, bounds and defaults. Ids are numbers, or text such as "0x7E0",
// since JSON has no hexadecimal numbers.
import * as v from 'valibot'
import { choice, int, maybeInt } from '../../src/config/fields'
import { whole } from '../kit/common-options'

export const MAX_STANDARD = 0x7ff
const MAX_EXTENDED = 0x1fff_ffff
/** largest packet of every kernel's ISO-TP */
export const STANDARD_PACKET = 4095
/** the maximum of can-isotp's `max_pdu_size`, and of a packet of this protocol */
const MAX_PACKET = 65_535

/** The numeric value of an id in either form. */
export const idOf = (typed: number | string): number => Number(typed)

const canId = v.pipe(
  v.union(
    [v.pipe(v.number(), v.integer()), v.pipe(v.string(), v.regex(/^0x[0-9a-f]{1,8}$/i, 'a text such as "0x7E0"'))],
    'a number, or text such as "0x7E0"',
  ),
  v.check(typed => idOf(typed) >= 0 && idOf(typed) <= MAX_EXTENDED, 'an id has 29 bits at most: 0 to 0x1FFFFFFF'),
)

const peerKeys = v.strictObject({
  /** aid of the node at the other end, referenced by `peer` */
  aid: v.optional(whole(1, 0xffff_fffe)),
  /** CAN id we send with */
  tx_id: canId,
  /** CAN id the peer sends with */
  rx_id: canId,
  /** 29-bit ids; left out: 29-bit when one of the two ids does not fit 11 bits */
  ext: v.optional(v.boolean()),
  /** FD frames; both ends and the interface must support FD */
  fd: v.optional(v.boolean(), false),
  /** FD: data at the higher bit rate */
  brs: v.optional(v.boolean(), true),
  /** FD: data bytes of the largest frame */
  frame_bytes: v.optional(v.picklist([8, 12, 16, 20, 24, 32, 48, 64]), 64),
  /** byte that pads short frames; left out: no padding */
  padding: v.optional(whole(0, 255)),
  /** frames the peer may send before it waits for us; 0: no limit */
  block_size: v.optional(whole(0, 255), 0),
  /** pause the peer makes between two frames, in microseconds */
  separation_us: v.optional(
    v.pipe(
      v.number(),
      v.integer(),
      v.minValue(0),
      v.maxValue(127_000),
      v.check(us => us % (us < 1000 ? 100 : 1000) === 0, 'whole milliseconds, or 100 to 900 microseconds in hundreds'),
    ),
    0,
  ),
})

const onePeer = v.pipe(
  peerKeys,
  v.check(
    ({ ext, tx_id, rx_id }) => ext !== false || Math.max(idOf(tx_id), idOf(rx_id)) <= MAX_STANDARD,
    'an id above 0x7FF has 29 bits: leave ext out, or set it to true',
  ),
)

type Peer = v.InferOutput<typeof peerKeys>

const sameIds = (a: Peer, b: Peer): string | undefined => {
  if (idOf(a.rx_id) === idOf(b.rx_id)) return 'have the same rx_id'
  if (idOf(a.tx_id) === idOf(b.tx_id)) return 'have the same tx_id'
  const crossed = idOf(a.tx_id) === idOf(b.rx_id) || idOf(a.rx_id) === idOf(b.tx_id)
  if (crossed) return 'would hear each other: the tx_id of one is the rx_id of the other'
  return a.aid !== undefined && a.aid === b.aid ? 'have the same aid' : undefined
}

/** The fault of a list of peers, whose ids must all differ; undefined: none. */
function peersFault(peers: readonly Peer[]): string | undefined {
  for (const [k, peer] of peers.entries()) {
    if (idOf(peer.tx_id) === idOf(peer.rx_id)) return `peers.${k}: tx_id and rx_id are the same`
    for (let other = 0; other < k; other++) {
      const fault = sameIds(peers[other]!, peer)
      if (fault) return `peers.${other} and peers.${k} ${fault}`
    }
  }
  return undefined
}

export const canOptions = v.object({
  mode: choice(['send', 'listen'], 'send', 'send: to one peer, answers come back; listen: packets of all peers'),
  interface: v.optional(
    v.pipe(
      v.string(),
      v.regex(/^[^\s/]{1,15}$/, 'the name of an interface, such as can0'),
      v.metadata({ help: 'CAN interface; its bit rate is set by the unit os-node-can@can0' }),
    ),
    'can0',
  ),
  peers: v.optional(
    v.pipe(
      v.array(onePeer),
      v.rawCheck(({ dataset, addIssue }) => {
        const fault = dataset.typed ? peersFault(dataset.value) : undefined
        if (fault) addIssue({ message: fault })
      }),
      v.metadata({
        help: 'the peers: tx_id, the CAN id we send with, and rx_id, the one we receive; aid, ext, fd, padding where needed',
      }),
    ),
    [],
  ),
  peer: maybeInt('aid of the peer that is sent to; left out: the only one', { max: 0xffff_fffe, side: 'send' }),
  max_packet: int(STANDARD_PACKET, 'bytes of the largest packet; above 4095 both kernels need max_pdu_size', {
    min: 64,
    max: MAX_PACKET,
  }),
  send_timeout_ms: int(10_000, 'time limit of one packet, and of waiting for the bus', {
    min: 100,
    max: 600_000,
  }),
})

export type CanOptions = v.InferOutput<typeof canOptions>
export type PeerOptions = CanOptions['peers'][number]
