// The registry file of both dialects, read by the rules of the reference: its location, its exact text, and a text
// rebuilt from signature and slots that equals the one last sent or received.
import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import type { Reading } from '../../../src/pipeline/fact'
import { Fusion } from '../../../src/pipeline/fuse'
import { createPureCore } from '../../../src/pipeline/pycore'
import { attributeUnits } from '../../../src/units/attribute'
import { resolve, resolveList } from '../../../src/units/canonical'
import { wireUnits } from '../../../src/units/wire'
import { ManualClock } from '../../lib/manual'

const root = mkdtempSync(join(tmpdir(), 'os-node-registry-'))
after(() => rmSync(root, { recursive: true, force: true }))
const T0 = 1_710_000_000_000

interface Kept {
  aid: string
  templates: Record<string, { sig: string; last_vals_bin: string[] }>
}

/** As the reference loads it: TIDs of at least two digits, as many slots as placeholders, slots in base64. */
function rebuild({ sig, last_vals_bin }: Kept['templates'][string], token: string): string {
  const parts = sig.replace('{TS}', token).split('\x01')
  assert.equal(parts.length - 1, last_vals_bin.length)
  return parts.map((part, k) => part + Buffer.from(last_vals_bin[k] ?? '', 'base64').toString('utf8')).join('')
}

for (const unitDialect of ['ucum', 'attribute'] as const)
  test(`dialect ${unitDialect}: sent and learned templates are in files that the reference reads`, () => {
    const dir = join(root, unitDialect)
    const clock = new ManualClock()
    const resolver = unitDialect === 'attribute' ? attributeUnits : { resolve, resolveList }
    const core = createPureCore({
      resolver,
      units: wireUnits(),
      unitDialect,
      clock,
      localId: 301_937_338,
      registryDir: join(dir, 'sent'),
    })
    const receiver = new Fusion(null, {
      units: wireUnits(),
      unitDialect,
      clock,
      localId: 9,
      registryDir: join(dir, 'got'),
    })
    const rows = (value: number): Reading[] => [
      ['T1', 'OK', value, 'Cel'],
      ['温度', 'Idle', -value, 'kPa'],
    ]
    for (let k = 0; k < 5; k++)
      receiver.decompress(core.transmitFast(rows(k), 'HUB', 'ONLINE', T0 + k, 301_937_338, k < 3 ? 'FULL' : 'DIFF'))
    receiver.decompress(core.transmitFast(rows(7).slice(1), 'HUB', 'x', T0 + 9, 301_937_338, 'FULL'))
    core.fusion.stop()
    receiver.stop()
    const last = new Fusion(null, { units: wireUnits(), unitDialect, clock })
    for (const side of ['sent', 'got']) {
      const path = join(dir, side, '03', '01', '301937338.json')
      const text = readFileSync(path, 'utf8')
      const kept = JSON.parse(text) as Kept
      assert.equal(text, JSON.stringify(kept, null, 4), 'four spaces, nothing else')
      assert.deepEqual(Object.keys(kept), ['aid', 'templates'])
      assert.equal(kept.aid, '301937338')
      assert.deepEqual(Object.keys(kept.templates).sort(), ['01', '02'])
      assert.deepEqual(Object.keys(kept.templates['01']!), ['sig', 'last_vals_bin'])
      assert.equal(kept.templates['01']!.sig, 'HUB.1.{TS}|T1>\x01:\x01|温度>\x01:\x01|')
      assert.equal(kept.templates['02']!.sig, 'HUB.x.{TS}|温度>\x01:\x01|')
      const fact = last.engine.decompress(rebuild(kept.templates['01']!, 'AY4j8UwE'))
      assert.deepEqual(
        [fact.s1_u, fact.s1_v, fact.s2_s, fact.s2_u, fact.s2_v],
        unitDialect === 'attribute'
          ? ['temperature', 277.15, 'IDLE', 'pressure', -4000]
          : ['K', 277.15, 'IDLE', 'Pa', -4000],
      )
    }
    assert.deepEqual(readdirSync(join(dir, 'sent')).sort(), ['03', 'clean-stop.json'])
  })
