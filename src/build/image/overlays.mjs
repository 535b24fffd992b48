// Compiles the device tree overlays of board/overlays for one chip. The firmware applies those that config.txt names before it starts the
// kernel, since Debian's kernel cannot apply any. Their names are those of Raspberry Pi OS, so `enable` of board/*.json is valid here too.
// What fails: a tool (E_TOOL), an unknown name of an overlay (E_USAGE).
import { readdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { usageError } from '../command.mjs'
import { tool } from '../node-runtime.mjs'

/** chip → `compatible` of its overlays; those with bcm2835 work on every Raspberry Pi up to 4 */
const CHIPS = { bcm2837: ['bcm2835'], bcm2711: ['bcm2835', 'bcm2711'], bcm2712: ['bcm2712'] }

/** The sources for a chip: `[name, path]`. */
export function overlaySources(root, chip) {
  const folder = join(root, 'board/overlays')
  return readdirSync(folder)
    .filter(file => file.endsWith('.dts'))
    .sort()
    .map(file => [file.slice(0, -4), join(folder, file)])
    .filter(([, path]) => CHIPS[chip].includes(/^\tcompatible = "brcm,(\w+)";$/m.exec(readFileSync(path, 'utf8'))?.[1]))
}

/** The compiled overlays for `chip`: `{ 'overlays/NAME.dtbo': bytes }`. */
export function makeOverlays(root, chip) {
  const how = ['-@', '-W', 'no-unique_unit_address', '-I', 'dts', '-O', 'dtb', '-o', '-']
  const compile = path => tool('device-tree-compiler', 'dtc', [...how, path], { encoding: 'buffer' })
  return Object.fromEntries(overlaySources(root, chip).map(([name, path]) => [`overlays/${name}.dtbo`, compile(path)]))
}

/** The lines of config.txt that enable `overlays` of `files`; each may have parameters, as in `mcp2515-can0,oscillator=8000000`. */
export function overlayLines(files, overlays) {
  const names = Object.keys(files).map(file => basename(file, '.dtbo'))
  for (const overlay of overlays)
    if (!names.includes(overlay.split(',')[0]))
      throw usageError(`no overlay ${overlay.split(',')[0]} for this board; there are ${names.join(', ')}`)
  return overlays.map(overlay => `dtoverlay=${overlay}\n`).join('')
}
