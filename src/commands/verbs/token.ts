// token --new: a new admin token. It is printed once; only its hash is kept. The old token stops working.
import { OsError } from '../../lib/errors'
import type { Verb } from '../verb'

export const token: Verb = {
  name: 'token',
  summary: 'make a new admin token for the web page and HTTP',
  examples: ['os-node token --new'],
  options: { new: { type: 'boolean', help: 'make one; the old one stops working' } },
  where: 'either',
  changes: true,
  async run(context, options) {
    if (!options.new) {
      throw new OsError('USAGE', 'tokens are not kept readable, so none can be shown', {
        hint: 'os-node token --new makes a new one',
      })
    }
    return { value: { token: await context.newToken() } }
  },
  text: value => `${value.token}\nSend it as the header X-Admin-Token. It is not shown again.`,
}
