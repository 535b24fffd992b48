// token --new: creates a new admin token. It is printed once, with the link and the QR code that sign in; only its hash
// is stored. The old token becomes invalid.
import { OsError } from '../../lib/errors'
import { configuredUrl, loginUrl, phoneCode } from '../login'
import type { Verb } from '../verb'

export const token: Verb = {
  name: 'token',
  summary: 'create a new admin token for web page and HTTP',
  examples: ['os-node token --new'],
  options: { new: { type: 'boolean', help: 'create one; the old one becomes invalid' } },
  where: 'either',
  changes: true,
  printsSecret: true,
  async run(context, options) {
    if (!options.new) {
      throw new OsError('USAGE', 'tokens are stored as hashes and cannot be shown', {
        hint: 'os-node token --new creates a new one',
      })
    }
    const made = await context.newToken()
    return { value: { token: made, login_url: loginUrl(context.webUrl?.() ?? configuredUrl(context.config), made) } }
  },
  text: ({ token: made, login_url }, paint) =>
    [
      String(made),
      `Send it as the header X-Admin-Token, or open ${paint.bold(String(login_url))}`,
      'It is not shown again.',
      ...phoneCode(String(login_url)),
    ].join('\n'),
}
