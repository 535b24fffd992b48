// The simulated world for tests: built once per process; its gateway has an optional fault. It runs in a separate process, as
// in `npm run test:sim`: promises of killed simulated processes are rejected there, which would fail a test here.
import assert from 'node:assert/strict'
import { fork } from 'node:child_process'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { RunOptions, RunResult } from '../sim/simulate'

const root = process.env.OS_NODE_TEST_ROOT ?? process.cwd()

/** [file, text in it, its replacement] */
type Patches = readonly (readonly [string, string, string])[]

interface Build {
  buildImage(patches?: Patches): Promise<string>
  buildWorld(file: string): Promise<void>
}
type Run = (order: RunOptions & { seed: number }) => Promise<RunResult>
interface Shrink {
  seedProcess(worldFile: string, imageFile: string): { run: Run; end(): void }
  shrink(
    run: (keep?: number[]) => Promise<RunResult>,
  ): Promise<{ keep: number[]; of: string; failure: string } | undefined>
}
interface Variant {
  readonly id: string
  readonly what: string
  readonly media: NonNullable<RunOptions['media']>
  readonly aim: RunOptions['aim']
  readonly relays: boolean
  readonly ids: boolean
  readonly patches: Patches
}

const load = <T>(file: string): Promise<T> => import(pathToFileURL(join(root, 'test/sim', file)).href) as Promise<T>

let world: Promise<string> | undefined

const worldFile = (): Promise<string> =>
  (world ??= (async () => {
    const file = join(mkdtempSync(join(tmpdir(), 'os-sim-')), 'world.cjs')
    await (await load<Build>('build.mjs')).buildWorld(file)
    return file
  })())

/** The faults that the world is known to detect; `every`: the others as well. */
export async function variants(every = false): Promise<readonly Variant[]> {
  const { VARIANTS, HARMLESS, UNNOTICED } = await load<{
    VARIANTS: readonly Variant[]
    HARMLESS: Record<string, string>
    UNNOTICED: readonly string[]
  }>('variants.mjs')
  return VARIANTS.filter(({ id }) => every || (!UNNOTICED.includes(id) && !HARMLESS[id]))
}

const imageFile = async (fault?: string | Patches): Promise<string> => {
  const { buildImage } = await load<Build>('build.mjs')
  const patches = typeof fault === 'string' ? (await variants()).find(({ id }) => id === fault)!.patches : fault
  const image = join(mkdtempSync(join(tmpdir(), 'os-sim-')), 'image.js')
  writeFileSync(image, await buildImage(patches))
  return image
}

/** What `npm run test:sim` makes of a seed that fails. */
export async function shrunk(seed: number, options: RunOptions, fault: Patches): ReturnType<Shrink['shrink']> {
  const { seedProcess, shrink } = await load<Shrink>('shrink.mjs')
  const runner = seedProcess(await worldFile(), await imageFile(fault))
  try {
    return await shrink(keep => runner.run({ ...options, seed, ...(keep && { keep }) }))
  } finally {
    runner.end()
  }
}

/**
 * The results of the seeds from 1 to `last`, in order, until a promise is broken; `fault`: of the variants, or patches of the source. Rejects if the
 * process of the world ends, or a program reaches around the world: that is no way to notice a fault.
 */
export async function simulate(
  last: number,
  options: RunOptions,
  fault?: string | Patches,
  /** each seed runs a second time, with texts apart, and fails where the traces differ */
  twice = fault === undefined,
): Promise<RunResult[]> {
  const child = fork(await worldFile(), ['--image', await imageFile(fault)])
  const results: RunResult[] = []
  try {
    await new Promise<void>((resolve, reject) => {
      child.once('error', reject)
      child.once('exit', code => reject(new Error(`the process of the world ended with ${code}`)))
      child.on('message', message => {
        if (message !== 'ready') results.push(message as RunResult)
        if (results.length === last || results.at(-1)?.failure !== undefined) resolve()
        else child.send({ ...options, seed: results.length + 1, twice })
      })
    })
  } finally {
    child.removeAllListeners('exit')
    child.kill()
  }
  assert.deepEqual(
    results.flatMap(({ roundabouts }) => roundabouts),
    [],
    'a program reached around the world',
  )
  return results
}
