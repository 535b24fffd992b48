// CAN frames per second, received and sent by our class on a virtual bus, compared with candump and cangen of can-utils in the same boot
// of the rig's kernel, and packets over the medium. A system call is expensive in that kernel, and it has one processor: the rates and the
// advantage of batches are those of the rig, not of a board. The ratios are gated. Not measured where the rig cannot run; that is printed.
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { buildSync } from 'esbuild'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const runner = join(root, 'test/rig/run')
const inside = join(root, '.build/bench/can.cjs')

/** `put(key, value)` records every figure, `mark` those with a target, `gateLeast(key, value, least)` those with a minimum. */
export function benchCan({ put, mark, gateLeast, problems }) {
  const check = spawnSync(runner, ['--check'], { encoding: 'utf8' })
  const lacks = check.status !== 0 ? check.stderr.trim() : existsSync('/usr/bin/cangen') ? '' : 'no can-utils'
  if (lacks !== '') {
    console.log(`can: not measured: ${lacks}`)
    return
  }
  buildSync({
    entryPoints: [join(root, 'bench/can/inside.ts')],
    outfile: inside,
    bundle: true,
    platform: 'node',
    format: 'cjs',
    // jsonc-parser's other form hides its requires from bundlers
    mainFields: ['module', 'main'],
    alias: { 'native-addons': join(root, '.build/addons.json') },
    logLevel: 'error',
  })
  const env = { ...process.env, OS_NODE_TEST_ROOT: root, RIG_MEM: '768M', RIG_TIMEOUT: '90' }
  const ran = spawnSync(runner, [process.execPath, inside], { encoding: 'utf8', env })
  if (ran.status !== 0) {
    problems.push(`can: ${ran.stderr.trim() || `the rig ended with ${ran.status}`}`)
    return
  }
  const { received, candump, sent, cangen, one, four } = JSON.parse(ran.stdout)
  put('can/in/class', received)
  put('can/in/candump', candump)
  put('can/out/class', sent)
  put('can/out/cangen', cangen)
  put('can/medium/packets', one.packets)
  put('can/medium/frames', one.frames)
  mark('can/medium/4_nodes/frames', four.frames, '≥ 15000')
  const ratio = (ours, theirs) => Math.round((ours / theirs) * 100) / 100
  gateLeast('can/in/as_candump_times', ratio(received, candump), 2)
  gateLeast('can/out/as_cangen_times', ratio(sent, cangen), 2)
}
