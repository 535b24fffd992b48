// Shapes of what methods return, as data: a shape is a function that throws with the place where a value differs.
import assert from 'node:assert/strict'

export type Shape = (value: unknown, at?: string) => void

const kind = (what: string, fits: (value: unknown) => boolean): Shape => {
  return (value, at = 'it') => assert.ok(fits(value), `${at} must be ${what}, not ${describe(value)}`)
}

const describe = (value: unknown): string => {
  const text = typeof value === 'bigint' || value === undefined ? String(value) : JSON.stringify(value)
  return (text ?? typeof value).slice(0, 200)
}

export const isDict = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array)

export const boolean = kind('true or false', value => typeof value === 'boolean')
export const integer = kind('a whole number', Number.isInteger)
export const number = kind('a number', value => typeof value === 'number' && Number.isFinite(value))
export const string = kind('a text', value => typeof value === 'string')
export const bytes = kind('bytes', value => value instanceof Uint8Array)
export const object = kind('an object', value => typeof value === 'object' && value !== null)
export const dict = kind('a dict', isDict)
export const none = kind('null', value => value === null)
export const nothing = kind('nothing', value => value === undefined)
export const anything: Shape = () => undefined

export const exactly = (wanted: unknown): Shape => {
  return (value, at = 'it') => assert.deepEqual(value, wanted, at)
}

/** a value of the shape, or null */
export const orNone = (shape: Shape): Shape => {
  return (value, at) => {
    if (value !== null) shape(value, at)
  }
}

export const oneOf = (...values: unknown[]): Shape =>
  kind(`one of ${values.map(describe).join(', ')}`, value => values.includes(value))

export const listOf = (shape: Shape): Shape => {
  return (value, at = 'it') => {
    assert.ok(Array.isArray(value), `${at} must be a list, not ${describe(value)}`)
    for (const [k, item] of value.entries()) shape(item, `${at}[${k}]`)
  }
}

export const tuple = (...shapes: Shape[]): Shape => {
  return (value, at = 'it') => {
    assert.ok(Array.isArray(value), `${at} must be a tuple, not ${describe(value)}`)
    assert.equal(value.length, shapes.length, `${at}: ${describe(value)}`)
    for (const [k, shape] of shapes.entries()) shape(value[k], `${at}[${k}]`)
  }
}

/** A dict with these keys at least, each of its shape. */
export const record = (shapes: Record<string, Shape>): Shape => {
  return (value, at = 'it') => {
    assert.ok(isDict(value), `${at} must be a dict, not ${describe(value)}`)
    for (const [key, shape] of Object.entries(shapes)) {
      assert.ok(key in value, `${at} has no ${key}: ${describe(value)}`)
      shape(value[key], `${at}.${key}`)
    }
  }
}

/** A dict of any keys. */
export const dictOf = (shape: Shape): Shape => {
  return (value, at = 'it') => {
    dict(value, at)
    for (const [key, item] of Object.entries(value as object)) shape(item, `${at}.${key}`)
  }
}
