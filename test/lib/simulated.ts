// The simulated world for tests: built once for each process, with or without a fault in the gateway.

import { mkdtempSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type * as World from '../sim/worker'

const root = process.env.OS_NODE_TEST_ROOT ?? process.cwd()

interface Build {
  buildImage(patches?: readonly unknown[]): Promise<string>
  buildWorld(file: string): Promise<void>
}
interface Variant {
  readonly id: string
  readonly what: string
  readonly patches: readonly unknown[]
}

const load = <T>(file: string): Promise<T> => import(pathToFileURL(join(root, 'test/sim', file)).href) as Promise<T>

let world: Promise<typeof World> | undefined

export const worldOf = (): Promise<typeof World> =>
  (world ??= (async () => {
    const { buildWorld } = await load<Build>('build.mjs')
    const file = join(mkdtempSync(join(tmpdir(), 'os-sim-')), 'world.cjs')
    await buildWorld(file)
    return createRequire(file)(file) as typeof World
  })())

const list = (): Promise<{ VARIANTS: readonly Variant[]; UNNOTICED: readonly string[] }> => load('variants.mjs')

/** The faults that the world is known to notice. */
export async function variants(): Promise<readonly Variant[]> {
  const { VARIANTS, UNNOTICED } = await list()
  return VARIANTS.filter(({ id }) => !UNNOTICED.includes(id))
}

/** The text of the gateway; `id`: with that fault built in. */
export async function imageOf(id?: string): Promise<string> {
  const { buildImage } = await load<Build>('build.mjs')
  const variant = id === undefined ? undefined : (await variants()).find(other => other.id === id)
  return buildImage(variant?.patches)
}
