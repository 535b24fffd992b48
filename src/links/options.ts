// Options of a driver come from Config.json as they were typed. They are checked against the driver's schema before
// anything is opened; what is wrong is told with its key, all of it at once.
import { type GenericSchema, safeParse } from 'valibot'
import { OsError } from '../lib/errors'

/** `raw` with the schema's defaults, or CONFIG_INVALID naming link and keys. `details.keys` lists the keys. */
export function checkOptions<Options>(schema: GenericSchema<unknown, Options>, raw: unknown, link: string): Options {
  const result = safeParse(schema, raw ?? {})
  if (result.success) return result.output
  const keys: string[] = []
  const texts = result.issues.map(issue => {
    const key = (issue.path ?? []).map(step => String((step as { key?: unknown }).key)).join('.')
    keys.push(key)
    return key === '' ? issue.message : `${key}: ${issue.message}`
  })
  throw new OsError('CONFIG_INVALID', `options of ${link}: ${texts.join('; ')}`, { details: { link, keys } })
}
