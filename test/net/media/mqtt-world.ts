// A real broker, and a sender of MQTT with its identity.
import type { TestContext } from 'node:test'
import { systemClock } from '../../../src/lib/clock'
import { silentLogger } from '../../../src/lib/logger'
import type { NodeIdentity, OpenableEvents } from '../../../src/links/contracts'
import { createMqtt, type MqttSender } from '../../../src/media/mqtt'
import { type Server, type ServerOptions, startMosquitto } from '../../lib/servers'

const QUEUE = ['max_queued_messages 0']

export async function broker(t: TestContext, options: ServerOptions = {}): Promise<Server> {
  const server = await startMosquitto({ ...options, lines: [...QUEUE, ...(options.lines ?? [])] })
  t.after(() => server.stop())
  return server
}

export const identity = (aid: number | null, installId: string): NodeIdentity & { assign(aid: number): void } => {
  const listeners = new Set<(aid: number) => void>()
  return {
    aid,
    installId,
    onAssigned(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    assign(id) {
      ;(this as { aid: number | null }).aid = id
      for (const listener of listeners) listener(id)
    },
  }
}

interface Heard {
  readonly texts: string[]
  readonly events: OpenableEvents
}
export const heard = (): Heard => {
  const texts: string[] = []
  return {
    texts,
    events: {
      lost: (reason, wanted) => texts.push(`${wanted ? 'wanted' : 'lost'} ${reason}`),
      degraded: reason => texts.push(`degraded ${reason}`),
    },
  }
}

export const context = { clock: systemClock, logger: silentLogger }

export function sender(
  t: TestContext,
  port: number,
  options: object = {},
  who = identity(7, 'gateway00001'),
): MqttSender {
  const medium = createMqtt('up', { host: '127.0.0.1', port, ...options }, { ...context, identity: who })
  t.after(() => medium.close())
  return medium as MqttSender
}
