// Bytes of heap that a packet costs the media whose gateways the bench does not start (heap.mjs): serial lines, CAN, LoRa, Bluetooth, QUIC.
// See media/inside.ts. What this machine cannot carry is printed as not measured.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { buildSync } from 'esbuild'
import { quicNode } from '../test/needs.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const inside = join(root, '.build/bench/media.mjs')
const YOUNG = ['--expose-gc', '--min-semi-space-size=128', '--max-semi-space-size=128']
const TRIES = 3
const needs = path => () => (existsSync(path) ? process.execPath : `this machine has no ${path}`)
/** medium: the most a packet may cost, sender and receiver together, and the Node that runs it, or why none does */
const MEDIA = {
  serial: [4200, needs('/usr/bin/socat')],
  can: [3400, () => process.execPath],
  lora: [72_000, () => process.execPath],
  bluetooth: [6000, () => process.execPath],
  quic: [1300, () => quicNode(process.execPath) ?? 'needs Node 22 or 24'],
}

/** `gate(key, value, budget)` takes every figure. */
export function benchMedia({ gate, problems, wanted }) {
  const keyOf = medium => `medium/heap_bytes_per_packet/${medium}`
  const due = Object.entries(MEDIA).filter(([medium]) => wanted(keyOf(medium)))
  if (due.length === 0) return
  buildSync({
    entryPoints: [join(root, 'bench/media/inside.ts')],
    outfile: inside,
    bundle: true,
    platform: 'node',
    format: 'esm',
    mainFields: ['module', 'main'],
    alias: { 'native-addons': join(root, '.build/addons.json') },
    banner: { js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);" },
    logLevel: 'error',
  })
  for (const [medium, [budget, nodeOf]] of due) {
    const node = nodeOf()
    if (!node.startsWith('/')) {
      console.log(`${keyOf(medium)}: NOT RUN, ${node}`)
      continue
    }
    let said
    for (let k = 0; k < TRIES && !(said?.collections === 0); k++) {
      const dir = mkdtempSync(join(tmpdir(), 'os-node-bench-media-'))
      const env = { ...process.env, OS_NODE_TEST_ROOT: root }
      const ran = spawnSync(node, [...YOUNG, inside, medium, dir], { encoding: 'utf8', env, timeout: 120_000 })
      rmSync(dir, { recursive: true, force: true })
      said = ran.status === 0 ? JSON.parse(ran.stdout) : undefined
      if (!said) problems.push(`${keyOf(medium)}: ${ran.stderr.trim() || ran.error || `ended with ${ran.status}`}`)
      if (!said) break
    }
    if (!said) continue
    if (said.collections > 0) problems.push(`${keyOf(medium)}: a collection fell into it`)
    gate(keyOf(medium), said.bytes, budget)
  }
}
