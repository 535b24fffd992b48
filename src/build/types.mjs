// Makes the type files next to the bundle (dist/os-node.d.ts) with TypeScript.
// What fails: type errors, which end the build (E_TYPES).
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, sep } from 'node:path'

/** The type files import from one package, valibot, which is inside the bundle: a copy of its types goes next to them, so users need no package. */
function inlineValibotTypes(root, dir) {
  copyFileSync(join(root, 'node_modules/valibot/dist/index.d.cts'), join(dir, 'valibot.d.ts'))
  for (const name of readdirSync(dir, { recursive: true })) {
    const file = join(dir, name)
    if (!name.endsWith('.d.ts') || name === 'valibot.d.ts') continue
    const text = readFileSync(file, 'utf8')
    const to = `${'../'.repeat(name.split(sep).length - 1)}valibot`
    if (/['"]valibot['"]/.test(text)) writeFileSync(file, text.replaceAll(/(['"])valibot['"]/g, `$1${to}$1`))
  }
}

/** Makes them in `dist`, in parallel with the other parts of the build, which use one processor. */
export async function emitTypes(root, dist) {
  const script = join(root, 'node_modules/typescript/bin/tsc')
  const args = [script, '-p', 'tsconfig.types.json', '--outDir', join(dist, 'types')]
  const tsc = spawn(process.execPath, args, {
    cwd: root,
    stdio: ['ignore', 2, 2],
  })
  const [status] = await once(tsc, 'close')
  if (status !== 0) {
    console.error('E_TYPES: the type files could not be made; run `npm run check` for the errors.')
    process.exit(1)
  }
  inlineValibotTypes(root, join(dist, 'types'))
  writeFileSync(join(dist, 'os-node.d.ts'), "export * from './types/src/index'\n")
}
