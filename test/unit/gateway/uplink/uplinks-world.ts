// A world of uplinks that ends with its test.
import type { TestContext } from 'node:test'
import { UplinkWorld } from '../../../lib/uplinkworld'

export function world(t: TestContext, settings: Record<string, unknown> = {}): UplinkWorld {
  const w = new UplinkWorld(settings)
  t.after(() => w.end())
  return w
}
