// Checks the options of makeImage before anything is downloaded or packed.
// What fails: a board, an overlay, a kernel, a folder, an address or a key that cannot be used (E_USAGE).
import { createPublicKey } from 'node:crypto'
import { keyIn, usageError } from '../command.mjs'
import { recipeOf } from './boards.mjs'
import { firmwareFiles } from './firmware.mjs'
import { checkKernel } from './kernel.mjs'
import { overlayLines, overlaySources } from './overlays.mjs'

/** Checks these options; returns the recipe of the board, and the keys whose updates the image accepts. Throws E_USAGE. */
export function checkImage(root, { board, sign, trust = [], overlays, kernel, firmware, url }) {
  const recipe = recipeOf(board)
  if (overlays && !recipe.chip) throw usageError(`board ${board} has no overlays: leave out --overlays`)
  if (kernel && !recipe.chip) throw usageError(`--kernel is for Raspberry Pi, not for board ${board}`)
  if (kernel) checkKernel(kernel)
  else if (overlays) overlayLines(Object.fromEntries(overlaySources(root, recipe.chip)), overlays)
  if (firmware) firmwareFiles(firmware)
  if (url && !URL.canParse(url)) throw usageError(`--url: ${url} is no address; it begins with https://`)
  const signing = sign ? [createPublicKey(keyIn(sign, '--sign'))] : []
  return { recipe, keys: [...signing, ...trust.map(path => keyIn(path, '--trust', createPublicKey))] }
}
