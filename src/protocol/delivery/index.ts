// The delivery exchange (X29, docs/protocol.md section 3): one sender per uplink, one receiver per listening medium. Both are
// pure state machines; their own files describe their errors.
export { ANSWER_SIZE, isProbe, isProbeReply, PROBE_REPLY_SIZE, PROBE_SIZE } from './frame'
export { type DeliveryPeer, DeliveryReceiver } from './receiver'
export { DeliverySender } from './sender'
export type { DeliveryMode, DeliverySenderOptions } from './sender-options'
export { DeliveryStream } from './stream'
