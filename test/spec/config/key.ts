// A configuration key of the specification as a row: its default, a change that is saved, values that are refused with the key
// and its range, and the effect of the change.
import assert from 'node:assert/strict'
import type { Row } from '../rows'
import { library, newNode } from '../world'

export interface Key {
  readonly key: string
  /** left out: the specification names none, and neither do we */
  readonly standard?: unknown
  readonly value: unknown
  /** a value of the right type that is out of range, or one of another type where every value of the type is valid */
  readonly bad: unknown
  /** how the refusal describes the range */
  readonly range: RegExp
  /** sets the key in separate nodes and observes the difference; throws when there is none */
  effect(): unknown
}

/** `a.b` and a value → `{a: {b: value}}` */
export const nested = (key: string, value: unknown): Record<string, unknown> => {
  const [head = '', ...rest] = key.split('.')
  return { [head]: rest.length === 0 ? value : nested(rest.join('.'), value) }
}

export const keyRow = ({ key, standard, value, bad, range, effect }: Key): Row => ({
  name: key,
  observe: async () => {
    const { store, configPath } = newNode()
    if (standard !== undefined) assert.deepEqual(store.get(key), standard, `${key}: default`)
    assert.throws(
      () => store.update(nested(key, bad)),
      (error: Error & { code?: string }) => {
        assert.equal(error.code, 'CONFIG_INVALID', `${key}: ${error.message}`)
        assert.ok(error.message.includes(key), `the refusal names ${key}: ${error.message}`)
        assert.match(error.message, range)
        return true
      },
      `${key} takes ${JSON.stringify(bad)}`,
    )
    assert.notDeepEqual(store.get(key), bad)
    store.update(nested(key, value))
    assert.deepEqual(new library.Node(configPath).store.get(key), value, `${key} is saved`)
    await effect()
  },
})
