// The delivery exchange of PROTOCOL X29 in one place: a sender per uplink, a receiver per listening medium. Both are pure
// state machines; their failure models are told in their own files.
export { ANSWER_SIZE, ENVELOPE, isProbe, PROBE_REPLY_SIZE, PROBE_SIZE, parseAnswer, parseFrame } from './delivery-frame'
export {
  type DeliverPacket,
  type DeliveryPeer,
  DeliveryReceiver,
  type DeliveryReceiverOptions,
  type ReceiverCounters,
} from './delivery-receiver'
export { type DeliveryCounters, type DeliveryMode, DeliverySender, type DeliverySenderOptions } from './delivery-sender'
export { DeliveryStream, type DeliveryStreamOptions, type StreamMode } from './delivery-stream'
