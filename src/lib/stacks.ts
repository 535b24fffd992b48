// Stacks of the bundle in words of its sources. Node reads a source map only of files it loads after source maps were switched on,
// which would cost every start; so they are switched on when an error is about to be printed.
import { existsSync } from 'node:fs'
import Module from 'node:module'
import { basename } from 'node:path'

/** kept, since Node forgets the map with the module */
const mapped = new Map<string, Module>()
const files = typeof __filename === 'string' ? [__filename] : []

/** Stacks of this file, a part of the program that was loaded later, are mapped too. */
export const alsoMaps = (file: string): void => {
  if (!files.includes(file)) files.push(file)
  if (mapped.size > 0) mapStacks()
}

/** From here on stacks that were not read yet name files and lines of the sources, and no line of minified code is printed. */
export function mapStacks(): void {
  for (const file of files) {
    if (mapped.has(file) || !existsSync(`${file}.map`)) continue
    try {
      process.setSourceMapsEnabled(true)
      const module = new Module(file)
      mapped.set(file, module)
      const { _compile } = module as unknown as { _compile(code: string, file: string): void }
      _compile.call(module, `//# sourceMappingURL=${basename(file)}.map`, file)
    } catch {
      // the error itself is what is to be seen
    }
  }
}

/**
 * An error that ends the process, or one that a program of the user left uncaught: its stack is printed by Node. Where the map is
 * missing Node would print the line that threw, of minified code; then the error alone is printed, and the process ends as by Node.
 */
export function mapUncaught(): void {
  process.once('uncaughtExceptionMonitor', error => {
    mapStacks()
    const [, top = ''] = /^ +at (.*)/m.exec(String(error?.stack)) ?? []
    const caught = process.hasUncaughtExceptionCaptureCallback() || process.listenerCount('uncaughtException') > 0
    if (mapped.size > 0 || caught || !files.some(file => top.includes(`${file}:`))) return
    console.error(error)
    process.exit(1)
  })
}
