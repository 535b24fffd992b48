// Bytes of heap that a packet costs the media whose gateways the bench does not start (heap.mjs): serial lines, IWIP, CAN, LoRa, Bluetooth, QUIC.
// With `--profile` also where their processor time goes. See media/inside.ts. What this machine cannot carry is printed as not measured.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { buildSync } from 'esbuild'
import { quicNode } from '../test/needs.mjs'
import { printShares, shares } from './profile.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const inside = join(root, '.build/bench/media.mjs')
const YOUNG = ['--expose-gc', '--min-semi-space-size=128', '--max-semi-space-size=128']
const TRIES = 3
const needs = path => () => (existsSync(path) ? process.execPath : `this machine has no ${path}`)
/** medium: the most a packet may cost, sender and receiver together, and the Node that runs it, or why none does */
const MEDIA = {
  serial: [4200, needs('/usr/bin/socat')],
  rs485: [6400, needs('/usr/bin/socat')],
  uip: [4000, needs('/usr/bin/socat')],
  iwip: [340, () => process.execPath],
  can: [3400, () => process.execPath],
  lora: [72_000, () => process.execPath],
  bluetooth: [6000, () => process.execPath],
  quic: [1300, () => quicNode(process.execPath) ?? 'needs Node 22 or 24'],
}

/** `gate(key, value, budget)` takes every figure; `profiled`: also prints a CPU profile of each. */
export function benchMedia({ gate, problems, wanted }, profiled) {
  const keyOf = medium => `medium/heap_bytes_per_packet/${medium}`
  const due = Object.entries(MEDIA).filter(([medium]) => wanted(keyOf(medium)))
  if (due.length === 0) return
  buildSync({
    entryPoints: [join(root, 'bench/media/inside.ts')],
    outfile: inside,
    bundle: true,
    sourcemap: true,
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
    if (profiled) printProfile(medium, node)
    let said
    for (let k = 0; k < TRIES && !(said?.collections === 0); k++) {
      const ran = run(node, YOUNG, medium)
      said = ran.status === 0 ? JSON.parse(ran.stdout) : undefined
      if (!said) problems.push(`${keyOf(medium)}: ${ran.stderr.trim() || ran.error || `ended with ${ran.status}`}`)
      if (!said) break
    }
    if (!said) continue
    if (said.collections > 0) problems.push(`${keyOf(medium)}: a collection fell into it`)
    gate(keyOf(medium), said.bytes, budget)
  }
}

function run(node, flags, medium, profiled) {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-bench-media-'))
  const env = { ...process.env, OS_NODE_TEST_ROOT: root }
  const args = [...flags, inside, medium, dir, ...(profiled ? ['profile'] : [])]
  const ran = spawnSync(node, args, { encoding: 'utf8', env, timeout: 120_000 })
  const file = join(dir, 'profile.json')
  if (profiled && ran.status === 0) ran.profile = JSON.parse(readFileSync(file, 'utf8'))
  rmSync(dir, { recursive: true, force: true })
  return ran
}

/**
 * Where the processor time of a packet goes, by file, both halves in one process; with
 * the young generation of a gateway, collected in one thread, since helpers wait for a processor on a busy machine.
 */
function printProfile(medium, node) {
  const { profile: said, stderr, status } = run(node, ['--max-semi-space-size=1', '--single-threaded-gc'], medium, true)
  if (!said) return console.log(`${medium}: no profile, ${stderr.trim() || `ended with ${status}`}`)
  const [user, system, waits] = [said.user, said.system, said.waits].map(value => value.toFixed(1))
  console.log(
    `\n${medium}: ${user} us of user time and ${system} us of system time a packet, all threads; they waited ${waits} times`,
  )
  printShares(shares(said.profile, readFileSync(`${inside}.map`, 'utf8')))
}
