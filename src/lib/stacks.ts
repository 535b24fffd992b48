// Stacks of the bundle in words of its sources. Node reads a source map only of files it loads after it was told to use them,
// which would cost every start; so it is told when an error is about to be printed, and given the map then.
import { existsSync } from 'node:fs'
import Module from 'node:module'
import { basename } from 'node:path'

/** kept, since Node forgets the map with the module */
let mapped: Module | undefined

/** From here on stacks that were not read yet name files and lines of the sources, and no line of minified code is printed. */
export function mapStacks(): void {
  if (mapped || typeof __filename !== 'string' || !existsSync(`${__filename}.map`)) return
  try {
    process.setSourceMapsEnabled(true)
    mapped = new Module(__filename)
    const { _compile } = mapped as unknown as { _compile(code: string, file: string): void }
    _compile.call(mapped, `//# sourceMappingURL=${basename(__filename)}.map`, __filename)
  } catch {
    // the error itself is what is to be seen
  }
}

/** An error that ends the process, or one that a program of the user left uncaught: its stack is printed by Node. */
export const mapUncaught = (): void => void process.once('uncaughtExceptionMonitor', mapStacks)
