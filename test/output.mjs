// The output of a test file: with the places of the sources, and its failures alone.
import { existsSync, readFileSync } from 'node:fs'
import { SourceMap } from 'node:module'
import { dirname, join } from 'node:path'

/**
 * Output with the lines of the sources instead of those of the bundles; a map is read only here, because it costs a third of a
 * second.
 */
export function atSource(output) {
  const maps = new Map()
  return output.replace(
    /(?:file:\/\/)?(\/[^\s():]*\/\.build\/test\/[^\s():]+\.js):(\d+):(\d+)/g,
    (place, file, line, column) => {
      if (!maps.has(file))
        maps.set(file, existsSync(`${file}.map`) && new SourceMap(JSON.parse(readFileSync(`${file}.map`, 'utf8'))))
      const { originalSource, originalLine, originalColumn } =
        (maps.get(file) || undefined)?.findEntry(line - 1, column - 1) ?? {}
      return originalSource ? `${join(dirname(file), originalSource)}:${originalLine + 1}:${originalColumn + 1}` : place
    },
  )
}

/** The failures, as the reporter sums them up at the end: the first lines. */
export function failures(output) {
  const [, ...sums] = output.split(/^✖ failing tests:$/m)
  return (sums.at(-1) ?? output.slice(-4000)).trim().split('\n').slice(0, 60).join('\n')
}
