// A listener and a sender of TCP, and a peer that writes raw bytes.
import assert from 'node:assert/strict'
import { connect, type Socket } from 'node:net'
import type { TestContext } from 'node:test'
import { systemClock } from '../../../../src/lib/clock'
import { silentLogger } from '../../../../src/lib/logger'
import type { OpenableEvents, PacketOrigin } from '../../../../src/links/contracts'
import { createTcp, TcpListener, TcpSender } from '../../../../src/media/tcp'
import { buildProbeReply } from '../../../../src/protocol/delivery/frame'
import { until as waitUntil } from '../../../lib/gateway'

export const context = { clock: systemClock, logger: silentLogger }
export const quiet: OpenableEvents = { lost: () => undefined, degraded: () => undefined }

export const until = (holds: () => boolean): Promise<boolean> => waitUntil(String(holds), holds)

interface Got {
  medium: TcpListener
  packets: Buffer[]
  origins: PacketOrigin[]
}

/** Answers probes as a receiver does, and keeps all packets. */
export async function listener(t: TestContext, options: object = {}, more: object = {}): Promise<Got> {
  const medium = createTcp(
    'in',
    { mode: 'listen', listen_host: '127.0.0.1', port: 0, ...options },
    { ...context, ...more },
  )
  assert.ok(medium instanceof TcpListener)
  const got: Got = { medium, packets: [], origins: [] }
  medium.onPacket((packet, origin) => {
    got.packets.push(Buffer.from(packet))
    got.origins.push(origin)
    if (packet[0] === 9) void origin.reply(buildProbeReply(1, 100))
  })
  t.after(() => medium.close())
  await medium.open(quiet)
  return got
}

export async function sender(t: TestContext, options: object, events = quiet, more: object = {}): Promise<TcpSender> {
  const medium = createTcp('up', { host: '127.0.0.1', ...options }, { ...context, ...more })
  assert.ok(medium instanceof TcpSender)
  t.after(() => medium.close())
  await medium.open(events)
  return medium
}

export async function raw(t: TestContext, port: number | undefined, host = '127.0.0.1'): Promise<Socket> {
  const socket = connect({ port: port!, host, allowHalfOpen: true })
  socket.on('error', () => undefined)
  t.after(() => socket.destroy())
  await new Promise(resolve => socket.once('connect', resolve))
  return socket
}

export const data = (text: string): Buffer => Buffer.from(`\x3f${text}`)
