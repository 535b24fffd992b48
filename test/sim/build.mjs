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
  [
    'src/gateway/uplink/passed-facts.ts',
    'if (limit === 0 && seq',
    'if (limit === 0) SIM.refused?.(seq)\n    if (limit === 0 && seq',
  ],
  ['src/storage/sqlite.ts', 'new Module(wasm)', '(SIM.sqlite ?? new Module(wasm))'],
  ['src/storage/database.ts', '?? WINDOW_PACKETS', '?? SIM.windowPackets ?? WINDOW_PACKETS'],
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

/** Module-level state of a process: where all processes share one text, each has its own (shared.ts). */
const OWN_STATE = [
  ['src/lib/timers.ts', 'seconds', 'new Map<number, Set<() => void>>()'],
  ['src/links/resolve.ts', 'lastAddresses', 'new LruMap<string, string>(MAX_LAST)'],
  ['src/native/native-thread.ts', 'leftBehind', 'new Map<string, Left[]>()'],
  ['src/gateway/time/time-sources.ts', 'rtc', 'new RtcClock()'],
  ['drivers/kit/shared.ts', 'known', 'new Map<string, Hardware>()'],
  ['drivers/serial/port.ts', 'openings', 'new Set<string>()'],
  ['drivers/serial/line.ts', 'ports', 'new Map<string, Shared>()'],
  ['drivers/serial/line.ts', 'behind', 'new Map<string, UsbIdentity>()'],
].map(([file, name, make]) => [
  file,
  `const ${name} = ${make}`,
  `const ${name} = SIM.own('${file} ${name}', () => ${make})`,
])
OWN_STATE.push(
  ['src/native/index.ts', 'let loaded: Native | OsError | undefined', ''],
  ['src/native/index.ts', 'loaded ??= load()', 'const { loaded } = SIM.stateOf("addon", () => ({ loaded: load() }))'],
)

/**
 * Module-level values that all processes may have in common: caches of functions that only compute, tables that are filled where they are declared,
 * and memory whose content no call leaves to the next. Names in capitals are constants.
 */
const COMMON = new Set([
  'src/config/config-store.ts owners', // by the configuration itself
  'src/config/keys.ts pathsOfKeys', // keys of the shipped schema
  'src/cores/native.ts made', // no call leaves anything in its memory
  'src/cores/native.ts problem',
  'src/gateway/receive/content-hash.ts double',
  'src/gateway/receive/content-hash.ts words',
  'src/lib/secrets.ts known',
  'src/links/network.ts known', // no machine here has interfaces
  'src/log/uuid.ts scratch',
  'src/log/uuid.ts view',
  'src/log/uuid.ts at',
  'src/media/udp/batch.ts inbox', // of the addon, which sends no packets here
  'src/media/udp/batch.ts outbox',
  'src/native/embedded-addon.ts kept', // a folder that no process here writes to
  'src/units/attribute.ts cache',
  'src/units/attribute-conversions.ts byKey',
  'src/units/attribute-conversions.ts byCode',
  'src/units/canonical.ts cache',
  'drivers/serial/port.ts buffer',
])
const STATE =
  /^(?:export )?(?:let ([a-z]\w*)|const ([a-z]\w*)(?::[^=]*)? = (?:new (?!RegExp|Text(?:En|De)coder|(?:Map|Set)(?:<[^(]*>)?\([^)])|Buffer\.alloc|\[\]|\{\}))/gm

/** Throws for module-level state that is neither of each process nor listed above. */
function checkState(files) {
  const own = new Set(
    OWN_STATE.map(([file, declaration]) => `${file} ${/^(?:let|const) (\w+)/.exec(declaration)?.[1]}`),
  )
  const strays = []
  for (const file of files) {
    if (!/^(?:src|drivers)\/.*\.ts$/.test(file)) continue
    for (const [, variable, constant] of readFileSync(join(root, file), 'utf8').matchAll(STATE)) {
      const name = `${file} ${variable ?? constant}`
      if (!COMMON.has(name) && !own.has(name)) strays.push(name)
    }
  }
  if (strays.length > 0)
    throw new Error(
      `all simulated processes would share ${strays.join(', ')}: add it to OWN_STATE or COMMON of test/sim/build.mjs`,
    )
}

/** The text of the image: those of the gateway and of its SQL worker, and sql.js, as JSON. */
export async function buildImage(patches = []) {
  const { build } = await import('esbuild')
  const all = [...TUNED, ...OWN_STATE, ...patches]
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
  const text = async (entry, shared) => {
    const { outputFiles, metafile } = await build({ ...settings, entryPoints: [entry] })
    if (shared) checkState(Object.keys(metafile.inputs))
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
    metafile: true,
    logLevel: 'error',
    define: { __VERSION__: '"1.0.0"', __BUILT_AT__: '1770000000000', __SELF_TEST_FILE__: 'false' },
    loader: { '.html': 'text', '.css': 'text', '.b64': 'text' },
    alias: { 'readable-stream': 'node:stream' },
    supported: { 'dynamic-import': false },
    plugins: [patched],
  }
  const [gateway, worker] = [await text('test/sim/image.ts', true), await text('src/storage/worker.ts', false)]
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
