// Each overlay of board/overlays applies to the device tree of each board that gets it, as the firmware does at the start, and the bus that
// the board's file declares for it is then enabled, on the pins that the file names.
// Needs: image
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { boardNamed } from '../../drivers/board/boards'
import { root, tempDir } from '../lib/gateway'

interface Recipe {
  chip?: string
  newer?: string[]
  boot?: Record<string, string | string[]>
  start?: Record<string, string | string[]>
}
interface Modules {
  IMAGE_BOARDS: Record<string, Recipe>
  baseSystem(root: string, say: (line: string) => void, newer?: string[]): string
  makeOverlays(root: string, chip: string): Record<string, Uint8Array>
}

type Tree = Map<string, string | Tree>

/** The nodes and properties of a device tree's text. */
function parse(text: string): Tree {
  const path: Tree[] = [new Map()]
  for (const [, open, close, name, value] of text.matchAll(/^\t*(?:([^\s=]+) \{|(\};)|([^\s=]+)(?: = (.+))?;)$/gm)) {
    if (close) path.pop()
    else if (name) path.at(-1)!.set(name, value ?? '')
    else {
      const inner: Tree = new Map()
      path.at(-1)!.set(open!, inner)
      path.push(inner)
    }
  }
  return path[0]!.get('/') as Tree
}

const all = (tree: Tree): Tree[] => [
  tree,
  ...[...tree.values()].flatMap(value => (typeof value === 'string' ? [] : all(value))),
]
const at = (tree: Tree, path: string): Tree =>
  path.split('/').reduce((node, name) => (name ? (node.get(name) as Tree) : node), tree)
const numbers = (text: unknown): number[] =>
  [...String(text ?? '').matchAll(/0x[0-9a-f]+/g)].map(([hex]) => Number(hex))

/** The GPIO lines of the pin groups that a node uses. */
function pinsOf(tree: Tree, node: Tree): number[] {
  const groups = numbers(node.get('pinctrl-0'))
  return all(tree)
    .filter(group => groups.includes(numbers(group.get('phandle'))[0] ?? 0))
    .flatMap(all)
    .flatMap(group => [
      ...numbers(group.get('brcm,pins')),
      ...[...String(group.get('pins') ?? '').matchAll(/gpio(\d+)/g)].map(([, line]) => Number(line)),
    ])
}

test('each overlay applies to its boards, and its bus is on the pins of the board file', async () => {
  const load = async (name: string): Promise<Modules> => (await import(join(root, 'src/build/image', name))) as Modules
  const { IMAGE_BOARDS } = await load('boards.mjs')
  const { makeOverlays } = await load('overlays.mjs')
  const { baseSystem } = await load('system.mjs')
  const dir = tempDir()
  let buses = 0
  for (const [board, { chip, newer, boot, start }] of Object.entries(IMAGE_BOARDS)) {
    if (!chip) continue
    const base = baseSystem(root, () => {}, newer)
    const [release] = readdirSync(join(base, 'usr/lib/modules'))
    const file = boardNamed(board)
    for (const [name, bytes] of Object.entries(makeOverlays(root, chip))) {
      const overlay = name.slice('overlays/'.length, -'.dtbo'.length)
      writeFileSync(join(dir, 'overlay'), bytes)
      for (const [dtb, paths] of Object.entries({ ...boot, ...start }).filter(([to]) => to.endsWith('.dtb'))) {
        const from = [paths]
          .flat()
          .map(path => join(base, path.replace('RELEASE', release!)))
          .find(path => existsSync(path))!
        execFileSync('fdtoverlay', ['-i', from, '-o', join(dir, 'out'), join(dir, 'overlay')], { stdio: 'pipe' })
        const tree = parse(
          execFileSync('dtc', ['-q', '-I', 'dtb', '-O', 'dts', join(dir, 'out')], { encoding: 'utf8' }),
        )
        const wanted = overlay === 'spi0-2cs' ? 'dtparam=spi=on' : `dtoverlay=${overlay}`
        for (const { name: bus, pins, enable } of file.buses) {
          if (!/^(spi|i2c|uart)/.test(bus) || !enable.some(lines => lines.at(-1) === wanted)) continue
          const label = bus === 'spi0' ? 'spi' : bus
          const symbols = tree.get('__symbols__') as Tree
          const path = String(symbols.get(label) ?? symbols.get(`rp1_${label}`))
          // the number of an I2C bus is that of its alias
          if (bus.startsWith('i2c')) assert.equal((tree.get('aliases') as Tree).get(bus), path, `${overlay} on ${dtb}`)
          const node = at(tree, path.slice(1, -1))
          assert.equal(node.get('status'), '"okay"', `${overlay} on ${dtb}`)
          const lines = new Set(pinsOf(tree, node))
          // spi1-1cs is the first of several forms: the board file names the pins of all
          const named = Object.entries(pins).filter(([role]) => !/^CE[12]$/.test(role) || overlay === 'spi0-2cs')
          assert.deepEqual(
            [...lines].sort((a, b) => a - b),
            named.map(([, line]) => Number(line.slice(4))).sort((a, b) => a - b),
            `pins of ${overlay} on ${dtb}`,
          )
          buses++
        }
        if (overlay === 'mcp2515-can0')
          assert.equal(all(tree).filter(node => node.get('compatible') === '"microchip,mcp2515"').length, 1)
      }
    }
  }
  assert.ok(buses > 40, `${buses} buses were compared`)
})
