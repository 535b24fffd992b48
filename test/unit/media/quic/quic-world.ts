// A listener and a sender of QUIC with certificates of their own.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, type TestContext } from 'node:test'
import { systemClock } from '../../../../src/lib/clock'
import { silentLogger } from '../../../../src/lib/logger'
import type { DriverContext, OpenableEvents } from '../../../../src/links/contracts'
import { createQuic, QuicListener, QuicSender } from '../../../../src/media/quic'
import { makeCerts } from '../../../lib/certs'
import { removeDir, tempDir, until as waitUntil } from '../../../lib/gateway'

export const dir = tempDir()
after(() => removeDir(dir))
export const certs = makeCerts(join(dir, 'certs'))
export const context: DriverContext = { clock: systemClock, logger: silentLogger }
export const silent: OpenableEvents = { lost: () => undefined, degraded: () => undefined }

export const until = (ask: () => unknown): Promise<unknown> => waitUntil(String(ask), ask)

export const own = { cert: certs.serverCert, key: certs.serverKey }

export async function listener(
  t: TestContext,
  more: object = {},
  parts: DriverContext = context,
): Promise<QuicListener> {
  const medium = createQuic('down', { mode: 'listen', listen_host: '127.0.0.1', port: 0, tls: own, ...more }, parts)
  assert.ok(medium instanceof QuicListener)
  t.after(() => medium.close())
  await medium.open(silent)
  return medium
}

export function sender(t: TestContext, port: number, more: object = {}, parts: DriverContext = context): QuicSender {
  const medium = createQuic('up', { host: 'localhost', port, tls: { ca: certs.ca }, ...more }, parts)
  assert.ok(medium instanceof QuicSender)
  t.after(() => medium.close())
  return medium
}

export const bytes = (length: number, seed: number): Buffer =>
  Buffer.from(Array.from({ length }, (_, k) => (k * 31 + seed) & 0xff))
