// A listener of UDP, and a free port.
import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import type { TestContext } from 'node:test'
import { systemClock } from '../../../../src/lib/clock'
import { silentLogger } from '../../../../src/lib/logger'
import type { OpenableEvents } from '../../../../src/links/contracts'
import { createUdp, UdpListener } from '../../../../src/media/udp'

export const context = { clock: systemClock, logger: silentLogger }

export const silentEvents: OpenableEvents = { lost: () => undefined, degraded: () => undefined }

export async function listener(t: TestContext, options: object = {}): Promise<UdpListener> {
  const medium = createUdp('in', { mode: 'listen', listen_host: '127.0.0.1', port: 0, ...options }, context)
  assert.ok(medium instanceof UdpListener)
  t.after(() => medium.close())
  await medium.open(silentEvents)
  return medium
}

/** A loopback port that is free at this moment. */
export async function freePort(): Promise<number> {
  const socket = createSocket('udp4')
  await new Promise<void>(resolve => socket.bind(0, '127.0.0.1', resolve))
  const { port } = socket.address()
  await new Promise<void>(resolve => socket.close(() => resolve()))
  return port
}
