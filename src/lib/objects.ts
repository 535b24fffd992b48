// Checks of data of unknown form. No errors.

/** A JSON object: not a list, not null. */
export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
