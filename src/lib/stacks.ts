// Maps stacks of the bundle to its sources. Node reads a source map only for files loaded after source maps are
// switched on, which would slow down every start; so they are switched on when an error is about to be printed.
import { existsSync } from 'node:fs'
import Module from 'node:module'
import { basename } from 'node:path'

/** referenced, because Node drops the map with the module */
const mapped = new Map<string, Module>()
const files = typeof __filename === 'string' ? [__filename] : []

/** Also maps the stacks of this file, a part of the program that was loaded later. */
export const alsoMaps = (file: string): void => {
  if (!files.includes(file)) files.push(file)
  if (mapped.size > 0) mapStacks()
}

/** From now on new stacks name files and lines of the sources, and no minified code is printed. */
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
      // the original error is what matters
    }
  }
}

/**
 * Handles an uncaught error of the program or of user code, whose stack Node prints. Without the map Node would print
 * the throwing line of minified code; then only the error is printed, and the process exits as Node would.
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
