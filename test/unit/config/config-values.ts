// What a configuration key accepts and refuses, checked by loading a file: a valid value is in the result, an invalid one is
// refused with the key's name.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ConfigStore } from '../../../src/config'
import { fragments } from '../../../src/index'
import { OsError } from '../../../src/lib/errors'

type Tree = Record<string, unknown>

/** key, a valid value that is not its default, an invalid value; what the list element needs, and the object of the key */
export type Row = readonly [key: string, good: unknown, bad: unknown, element?: Tree, beside?: Tree]

/** `a.b[].c` and a value → the nested object */
function treeOf(key: string, value: unknown, element: Tree, beside: Tree): Tree {
  const [head = '', ...rest] = key.split('.')
  const inside = (): unknown => (rest.length === 0 ? value : treeOf(rest.join('.'), value, element, beside))
  if (head.endsWith('[]')) return { [head.slice(0, -2)]: [{ name: 'one', ...element, ...(inside() as Tree) }] }
  return rest.length === 0 ? { ...beside, [head]: value } : { [head]: inside() }
}

export function checkRow([key, good, bad, element = {}, beside = {}]: Row): void {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-values-'))
  const load = (value: unknown): ConfigStore => {
    const path = join(dir, 'Config.json')
    writeFileSync(path, JSON.stringify(treeOf(key, value, element, beside)))
    return ConfigStore.load({ path, env: {}, cwd: dir, fragments: fragments(), keep: false })
  }
  try {
    const at = key.replaceAll('[]', '.0')
    const store = load(good)
    assert.deepEqual(store.get(at), good, key)
    assert.deepEqual(store.warnings, [], key)
    assert.throws(
      () => load(bad),
      (error: unknown) => {
        assert.ok(error instanceof OsError && error.code === 'CONFIG_INVALID', `${key}: ${String(error)}`)
        const parent = at.slice(0, at.lastIndexOf('.'))
        assert.ok(error.message.includes(at) || error.message.includes(parent), `${key}: ${error.message}`)
        assert.match(error.message, /must be|only|not/, key)
        return true
      },
      key,
    )
  } finally {
    rmSync(dir, { recursive: true, force: true })
  }
}
