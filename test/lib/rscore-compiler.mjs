// Compiles src/cores/rscore.as to rscore.wasm, which is in the repository, so that a build needs no compiler: `node
// test/lib/rscore-compiler.mjs`. The output is reproducible (test/unit/cores/native.test.ts).
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** The compiled module of a source. Throws the compiler's output. */
export async function compile(source) {
  const { default: asc } = await import('assemblyscript/asc')
  const options = [
    '--optimizeLevel',
    '3',
    '--shrinkLevel',
    '0',
    '--runtime',
    'stub',
    '--noAssert',
    '--initialMemory',
    '6',
  ]
  let binary = null
  const { error, stderr } = await asc.main(['rscore.ts', '--outFile', 'rscore.wasm', ...options], {
    readFile: name => (name === 'rscore.ts' ? source : null),
    writeFile: (name, content) => {
      if (name === 'rscore.wasm') binary = content
    },
    listFiles: () => [],
  })
  if (error || !binary) throw new Error(`E_COMPILE: ${stderr.toString() || error?.message}`)
  return Buffer.from(binary)
}

if (process.argv[1] === import.meta.filename) {
  const dir = join(import.meta.dirname, '../../src/cores')
  writeFileSync(join(dir, 'rscore.wasm'), await compile(readFileSync(join(dir, 'rscore.as'), 'utf8')))
}
