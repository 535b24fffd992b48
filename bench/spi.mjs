// Time per SPI register read, on a chip of the kernel rig: one awaited transfer after the other and 32 in the queue, compared
// with a plain C loop over the same ioctl in the same boot. The chip is a program, so the times are those of the rig; their
// ratios are valid.
import { spawnSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const rig = join(root, 'test/rig/run')
/** One awaited read may cost this many plain ones: the rig's one processor switches to the thread and back for each. */
const MOST_TIMES = 20

function ran(command, args, env = process.env) {
  const { status, stdout, stderr, error } = spawnSync(command, args, { cwd: root, encoding: 'utf8', env })
  if (status !== 0) throw new Error(`${command}: ${error?.message ?? (stderr || status)}`)
  return stdout.trim()
}

/** The reason why it cannot be measured here; '' when it can. */
function lacks() {
  const check = spawnSync(rig, ['--check'], { encoding: 'utf8' })
  if (check.status !== 0) return check.stderr?.trim() || 'no rig'
  return spawnSync('pkg-config', ['fuse3']).status === 0 ? '' : 'needs libfuse3-dev and pkgconf'
}

export async function benchSpi({ put, gate }) {
  const why = lacks()
  if (why) {
    console.log(`spi/: not measured: ${why}`)
    return
  }
  const dir = join(root, '.build/bench-spi')
  mkdirSync(dir, { recursive: true })
  const { build } = await import('esbuild')
  const entryPoints = [join(root, 'src/native/spi.ts')]
  const alias = { 'native-addons': join(root, '.build/addons.json') }
  await build({ entryPoints, bundle: true, platform: 'node', format: 'cjs', alias, outfile: join(dir, 'spi.cjs') })
  const fuse = ran('pkg-config', ['--cflags', '--libs', 'fuse3']).split(/\s+/)
  ran('cc', ['-O2', '-o', join(dir, 'chip'), join(root, 'test/rig/models/spi-registers.c'), ...fuse])
  ran('cc', ['-O2', '-o', join(dir, 'read'), join(root, 'bench/spi/read.c')])
  const env = { ...process.env, OS_NODE_ADDON_DIR: join(root, 'dist/native') }
  const { read, queued, c } = JSON.parse(ran(rig, [process.execPath, join(root, 'bench/spi/inside.cjs'), dir], env))
  const round = x => Math.round(x * 10) / 10
  put('spi/c_us', round(c))
  put('spi/read_us', round(read))
  put('spi/queued_us', round(queued))
  gate('spi/read_times', round(read / c), MOST_TIMES)
  put('spi/queued_times', round(queued / c))
}
