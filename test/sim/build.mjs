// Builds the two texts of the simulator: the world (test/sim) and the image, which is the gateway as one function body. A variant is the
// image with a fault built in: `[file, text in it, its replacement]`. Throws if the text does not occur exactly once.
import { readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { brotliCompressSync } from 'node:zlib'

export const root = join(dirname(fileURLToPath(import.meta.url)), '../..')

/** Limits that the seed draws: SIM is a parameter of the image. */
const TUNED = [
  ['src/log/log-options.ts', 'o.maxBytes ?? 64 * MIB, 256 * KIB', 'SIM.maxBytes ?? o.maxBytes ?? 64 * MIB, 16 * KIB'],
  ['src/log/log-options.ts', 'o.segmentBytes ?? MIB,', 'SIM.segmentBytes ?? o.segmentBytes ?? MIB,'],
  ['src/log/log-options.ts', '32 * KIB)', 'SIM.leastSegment ?? 32 * KIB)'],
  ['src/log/log-options.ts', 'o.bufferBytes ?? 8 * MIB', 'SIM.bufferBytes ?? o.bufferBytes ?? 8 * MIB'],
  [
    'src/gateway/uplink/send-queue.ts',
    'item.done = true\n    if (oversized',
    'item.done = true\n    SIM.settled?.(item.seq)\n    if (oversized',
  ],
  [
    'src/gateway/uplink/send-queue.ts',
    'this.#parts.correct?.(record)',
    'this.#parts.correct?.(record); SIM.taken?.(record)',
  ],
  ['src/storage/sqlite.ts', 'new Module(wasm)', '(SIM.sqlite ?? new Module(wasm))'],
  ['src/storage/database.ts', 'WINDOW_PACKETS = 32_768', 'WINDOW_PACKETS = SIM.windowPackets ?? 32_768'],
  // the world runs the worker's text itself
  [
    'src/storage/program.ts',
    "const bytes = brotliDecompressSync(Buffer.from(packed, 'base64'))",
    'if (packed === "") return { script: "", wasm: new Uint8Array(0) }\n  const bytes = brotliDecompressSync(packed)',
  ],
  ['src/log/segments.ts', 'base + RESERVE', 'base + (SIM.reserve ?? RESERVE)'],
  // a world with the native addon has it for its serial ports only
  ['src/media/udp/open.ts', "batch === 'auto' ? nativeOrNull() : null", 'null && nativeOrNull()'],
]

const OWN_CORE = "import * as nativeCore from '../../test/sim/native-core'\n"
/** Gateways on the native core: test/sim/native-core.ts. */
export const NATIVE_CORE = [
  ['src/pipeline/sender.ts', 'const PLAIN: EncodeOptions', `${OWN_CORE}const PLAIN: EncodeOptions`],
  [
    'src/pipeline/sender.ts',
    'plan.writeFrame(out, at, this.#fullOnly || options.full === true, this.policy, key)',
    'nativeCore.writeFrame(out, at, plan, this.#fullOnly || options.full === true, this.policy, key)',
  ],
  [
    'src/pipeline/sender.ts',
    'plan.writeFrame(out, at, true, BACKLOG_POLICY, key)',
    'nativeCore.writeFrame(out, at, plan, true, BACKLOG_POLICY, key)',
  ],
  ['src/pipeline/receiver.ts', 'plainFrame(packet, 0, packet.length)', 'nativeCore.plainFrame(packet)'],
  [
    'src/pipeline/receiver.ts',
    "import { type Clock, systemClock } from '../lib/clock'\n",
    `${OWN_CORE}import { type Clock, systemClock } from '../lib/clock'\n`,
  ],
]

/** The text of the image: those of the gateway and of its SQL worker, and sql.js, as JSON. */
export async function buildImage(patches = []) {
  const { build } = await import('esbuild')
  const all = [...TUNED, ...patches]
  const left = new Set(all)
  const patched = {
    name: 'patched',
    setup({ onLoad, onResolve }) {
      onLoad({ filter: /[\\/](src|drivers)[\\/].*\.ts$/ }, ({ path }) => {
        const file = relative(root, path)
        const own = all.filter(([of]) => of === file)
        if (own.length === 0) return undefined
        let contents = readFileSync(path, 'utf8')
        for (const patch of own) {
          const [, from, to] = patch
          if (contents.split(from).length !== 2) throw new Error(`${file} does not have this once: ${from}`)
          contents = contents.replace(from, () => to)
          left.delete(patch)
        }
        return { contents, loader: 'ts' }
      })
      onLoad({ filter: /\.wasm$/ }, ({ path }) => ({
        contents: JSON.stringify(brotliCompressSync(readFileSync(path)).toString('base64')),
        loader: 'json',
      }))
      // neither the addon nor the SQL worker is in the simulated world
      onResolve({ filter: /^(native-addons|sql-worker)$/ }, ({ path }) => ({ path, namespace: 'left-out' }))
      onLoad({ filter: /.*/, namespace: 'left-out' }, ({ path }) => ({
        contents: path === 'sql-worker' ? '""' : '{}',
        loader: 'json',
      }))
    },
  }
  const text = async entry => {
    const { outputFiles } = await build({ ...settings, entryPoints: [entry] })
    return outputFiles[0].text
  }
  const settings = {
    absWorkingDir: root,
    bundle: true,
    platform: 'node',
    mainFields: ['module', 'main'],
    target: 'node20',
    format: 'cjs',
    write: false,
    logLevel: 'error',
    define: { __VERSION__: '"1.0.0"', __BUILT_AT__: '1770000000000', __SELF_TEST_FILE__: 'false' },
    loader: { '.html': 'text', '.css': 'text', '.b64': 'text' },
    alias: { 'readable-stream': 'node:stream' },
    supported: { 'dynamic-import': false },
    plugins: [patched],
  }
  const [gateway, worker] = [await text('test/sim/image.ts'), await text('src/storage/worker.ts')]
  if (left.size > 0) throw new Error(`not in the image: ${[...left].map(([file]) => file).join(', ')}`)
  const wasm = readFileSync(join(root, 'node_modules/sql.js/dist/sql-wasm.wasm'), 'base64')
  return JSON.stringify({ gateway, worker, wasm })
}

/** The text of the world, a CommonJS module. */
export async function buildWorld(outfile) {
  const { build } = await import('esbuild')
  await build({
    absWorkingDir: root,
    entryPoints: ['test/sim/worker.ts'],
    bundle: true,
    platform: 'node',
    target: 'node20',
    format: 'cjs',
    outfile,
    logLevel: 'error',
    sourcemap: 'inline',
  })
}
