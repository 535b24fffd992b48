// Two gateways with a secure session over a serial line, and what must be true at the end.
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { packetsIn } from '../../lib/packets'
import { World, type WorldOptions } from '../../lib/secureworld'

export const PLAIN = ['3F', 'AA', '7F']

export async function world(t: TestContext, options: WorldOptions = {}): Promise<World> {
  const made = new World(options)
  t.after(() => made.end())
  return made.start()
}

export const values = (log: World['sent']): string[] =>
  log.facts.map(({ id, tRaw, sensors }) => `${id} ${tRaw} ${sensors.map(s => s.value)}`).sort()

/** Both logs are equal, nothing is pending, and the session is secure. */
export function assertSettled(w: World): void {
  assert.deepEqual(values(w.got), values(w.sent))
  assert.equal(w.uplink.status().backlog, 0)
  assert.equal(w.uplink.status().secure, 'secure')
}

export const is = (cmd: number, ...more: number[]) => {
  const wanted = [cmd, ...more]
  return (packet: Uint8Array): boolean => packetsIn(packet).some(inner => wanted.includes(inner[0]!))
}
