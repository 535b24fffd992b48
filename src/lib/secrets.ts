// Secrets never leave in readable form (X19). What is one is known by the name it has, in any spelling (apiToken, X-Api-Key,
// passphrases), and in texts by what surrounds it: user info, parameters and webhook paths of URLs, authorization headers,
// private keys. Nothing here fails. Every pattern is linear in the text.

export const MASK = '********'

const KINDS =
  'access|account|api|app|application|auth|bind|bot|client|device|enc|encrypt|encryption|hmac|join|license|link|master|' +
  'network|nwk|private|psk|root|secret|security|session|shared|signing|ssh|storage|subscription|wep|wifi|wpa'
const NAME = new RegExp(
  '(?:password|passwd|passphrase|passcode|secret|token|credential)s?(?:_?hash)?$|' +
    `(?:^|_)(?:pass|pwd|psk|jwt|authorization|bearer|cookie|web_?hooks?(?:_urls?)?|(?:${KINDS})_?key)s?$`,
)

/** `clientSecret`, `X-Api-Key` → `client_secret`, `x_api_key` */
const snake = (name: string): string =>
  name
    .slice(-100)
    .replace(/([a-z0-9])([A-Z])/g, '$1_$2')
    .replace(/([A-Z])([A-Z][a-z])/g, '$1_$2')
    .replace(/[^A-Za-z0-9]+/g, '_')
    .replace(/_$/, '')
    .toLowerCase()

const known = new Map<string, boolean>()

/** True for the name of something that holds a secret. */
export function isSecretName(name: string): boolean {
  let is = known.get(name)
  if (is === undefined) {
    is = NAME.test(snake(name))
    // names come from outside as well
    if (known.size >= 2000) known.clear()
    known.set(name, is)
  }
  return is
}

const URL = /([a-z][a-z0-9+.-]{0,30}:\/\/)([^\s"'<>`]+)/gi
const HEADER =
  /\b((?:proxy-)?authorization|(?:set-)?cookie|(?:x-)?[\w-]{0,40}(?:key|token|secret))(\s?:\s?)((?:bearer|basic|digest)\s+)?([^\s"',;]{4,})/gi
const ASSIGNED = /(?<![\w-])([A-Za-z][\w-]{0,60})=([^\s"',;&]+)/g
const BEARER = /\b(bearer\s+)([\w.~+/=-]{8,})/gi
const PRIVATE_KEY = /PRIVATE KEY-----/
/** parameters of a URL that hold a secret in services people use */
const PARAMETER = /^(?:key|k|sig|signature|auth|code|hash|sas)$/i
const HEADER_NAME = /^(?:x-|api|proxy-|authorization|set-cookie|cookie)/i

/** A part of a path that is not typed by hand: 16 letters and digits in a row. */
const looksMade = (segment: string): boolean =>
  (segment.match(/[A-Za-z0-9]{16,}/g) ?? []).some(run => /\d/.test(run) && /[A-Za-z]/.test(run))

function maskUrl(address: string): string {
  const [, before = '', after = ''] = /^([^?#]*)([\s\S]*)$/.exec(address) ?? []
  let authority = /^[^/]*/.exec(before)![0]
  // a password with a slash in it: what is behind the colon is no port
  if (!authority.includes('@') && /:[^/]*\D/.test(authority) && !authority.includes(']') && before.includes('@'))
    authority = before.slice(0, /^[\s\S]*@[^/]*/.exec(before)![0].length)
  const path = before.slice(authority.length)
  const at = authority.lastIndexOf('@')
  const host = authority.slice(at + 1)
  let hook = /hook/i.test(host)
  const segments = path.split('/').map(segment => {
    const shown = segment !== '' && (hook || looksMade(segment)) ? MASK : segment
    hook ||= /hook/i.test(segment)
    return shown
  })
  const parameters = after.replace(/([?&;#])([^=&;#]{1,100})=([^&;#]*)/g, (all, mark: string, name: string, value) =>
    value !== '' && (PARAMETER.test(name) || isSecretName(name)) ? `${mark}${name}=${MASK}` : all,
  )
  return `${at < 0 ? '' : `${MASK}@`}${host}${segments.join('/')}${parameters}`
}

/** A text without the secrets in it. */
export function maskText(text: string): string {
  if (PRIVATE_KEY.test(text)) return MASK
  // the usual text holds nothing that could be one
  if (!/[:=]|bearer/i.test(text)) return text
  return text
    .replace(URL, (_, scheme: string, address: string) => scheme + maskUrl(address))
    .replace(HEADER, (all, name: string, colon: string, kind = '') =>
      HEADER_NAME.test(name) ? `${name}${colon}${kind}${MASK}` : all,
    )
    .replace(ASSIGNED, (all, name: string, value: string) =>
      isSecretName(name) && !value.startsWith(MASK) ? `${name}=${MASK}` : all,
    )
    .replace(BEARER, `$1${MASK}`)
}

/** A copy of plain data whose texts hold no secrets. */
export function maskTexts<T>(value: T): T
export function maskTexts(value: unknown): unknown {
  if (typeof value === 'string') return maskText(value)
  if (Array.isArray(value)) return value.map(item => maskTexts(item))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, maskTexts(item)]))
}

/** True for what shows nothing: an empty secret stays visible as that. */
export const isEmptySecret = (value: unknown): boolean => value === '' || value === null || value === undefined
