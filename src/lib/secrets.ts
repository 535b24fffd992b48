// Secrets are never shown in readable form (X19). A secret is recognized by its name, in any spelling (apiToken,
// X-Api-Key, passphrases), or by the name next to it ({"name": "password", "value": "x"}, ["Authorization", "x"]), and
// in texts by its surroundings: user info, parameters and webhook paths of URLs, authorization headers, private keys.
// No errors. Every pattern is linear in the text.
import { orElse } from './errors'

export const MASK = '********'

const KINDS =
  'access|account|admin|aes|api|apps?|application|auth|bind|ble|bot|bthome|client|dev|device|enc|encrypt|encryption|hmac|join|' +
  'cd|cipher|deploy|gpg|license|link|lora|master|network|nwks?|pan|priv|private|product|psk|root|rsa|serial|sha\\d*|secret|security|' +
  'session|shared|signing|ssh|storage|subscription|wep|wifi|wpa|zigbee'
/** What a code, a phrase or words open, if they are secrets. */
const OPENS =
  '2fa|access|activation|arm|auth|backup|disarm|door|emergency|entry|install|invite|keypad|link|login|master|mfa|mnemonic|' +
  'one_?time|otp|pairing|puk|recovery|reset|scratch|secret|security|seed|setup|totp|two_?factor|unlock|verification'
/** Prefixes of `pass` and `pw` in one word: userpass. */
const WHOSE = 'admin|app|ap|broker|db|ftp|http|key|mail|mqtt|proxy|root|smtp|sql|ssh|user|vpn|web|wifi'
/** A filter name (low_pass) is no password. A suffix may number the secret or name its form. */
const WORDS =
  '^(?!(?:count|max|min|num)_).*' +
  '(?:(?:password|passwort|kennwort|wachtwoord|contrasena|motdepasse|passwd|passphrase|passcode|secret|token|credential)s?|' +
  '(?:^|_)(?:(?<!(?:all|band|by|high|low)_)pass(?:_?key)?|pw|pwd|psk|otp|pincode|cred|community|basicauth|oauth|jwt|' +
  'authorization|bearer|cookie|signature|hmac|session_?id|(?:php)?sessid|csrf|xsrf|webhook(?:_?urls?)?|access_?key_?id|' +
  `(?:${KINDS})_?key|(?:${WHOSE})_?(?:pass|pwd?)|connectionstring|connstr|dsn|tkn|irk|csrk|ltk|mnemonic|` +
  `(?:seed|recovery|backup|secret)_?(?:phrase|word)|t?otp_?seed|mdp|senha|clave|haslo|heslo|jelszo|salasana)s?)` +
  '(?:_?(?:hash|value|text|string|plain|clear|raw|hex|pem|json|base64|old|new|prev|previous|current|next|backup|prod|' +
  'production|staging|primary|secondary|confirm|confirmation|repeat|header|\\d+))*(?:_[a-z])?$'
/** Each word may be split anywhere: pass_word, PassWord. On a slow processor V8 takes a fifth of a second to compile it. */
const NAME = new RegExp(WORDS.replace(/[a-z](?=[a-z])/g, '$&_?'))
/** A looser pattern over the letters alone. A name that does not match is no secret, so NAME need not be compiled. */
const LETTERS = new RegExp(
  WORDS.replace(/^.*?\.\*|\(\?<!.*?_\)|\|\\d\+/g, '')
    .replaceAll('(?:^|_)', '')
    .replace(/_\??|\\d\*|\d/g, ''),
)

/** `contraseña` → `contrasena` */
const plain = (name: string): string => name.normalize('NFD').replace(/\p{M}/gu, '').replaceAll('ł', 'l')

/** `clientSecret`, `X-Api-Key` → `client_secret`, `x_api_key` */
export const snake = (name: string): string =>
  plain(name.slice(-100))
    .replace(/([a-z0-9])([A-Z])/g, '$1_$2')
    .replace(/([A-Z])([A-Z][a-z])/g, '$1_$2')
    .replace(/[^A-Za-z0-9]+/g, '_')
    .replace(/_$/, '')
    .toLowerCase()

const known = new Map<string, boolean>()

/** True for the name of a secret. */
export function isSecretName(name: string): boolean {
  let is = known.get(name)
  if (is === undefined) {
    is =
      LETTERS.test(
        plain(name)
          .replace(/[^A-Za-z]/g, '')
          .toLowerCase(),
      ) && NAME.test(snake(name))
    // names also come from outside, so the cache is bounded
    if (known.size >= 2000) known.clear()
    known.set(name, is)
  }
  return is
}

/** Names of secrets and of other things: the value decides. A pin of a board has one or two digits. */
const MAYBE = /(?:^|_)(?:key|licen[cs]e|nonce|pat|pepper|salt|seed|session|sid)$/
const PIN = /(?:^|_)(?:user|card|sim|wps)?p(?:in|uk)$/
/** `auth`, `totp`, `unlock_code`: the secret itself, or the method in use */
const EITHER = new RegExp(
  `(?:^|_)(?:(?:auth[nz]?|mfa|2fa|totp|two_?factor)(?:_?(?:data|header|info|param|string|text|value))?s?|(?:${OPENS})_?codes?)$`,
)
/** Values of such names that are no secret. */
const METHOD = new RegExp(
  '^(?:aes[\\w-]*|any|api-?key|app|auto|basic|bearer|cert(?:ificate)?s?|chap|cram-?md5|default|digest|disabled|eap[\\w-]*|email|' +
    'enabled|external|gssapi|kerberos|key|ldap|local|login|m?tls|md5|negotiate|no|none|ntlm|oauth\\d?|off|on|open|optional|otp|pam|pap|' +
    'password|plain|psk|radius|required|sasl|scram[\\w-]*|sha[\\d-]*|sms|ssl|token|totp|true|false|user|wep|wpa\\d?[\\w-]*|x509|' +
    'xoauth2|yes)$',
  'i',
)
const WORD_ALONE = /^[a-z]+[.!]?$/i

/** True for a name whose value may be a secret. */
export function mayBeSecret(name: string): boolean {
  const word = snake(name)
  return isSecretName(name) || MAYBE.test(word) || PIN.test(word) || EITHER.test(word)
}

/** True for the name of a secret, or for an ambiguous name with a value that looks like a secret. */
export function isSecret(name: string, value: unknown): boolean {
  if (isSecretName(name)) return true
  if (Array.isArray(value)) return value.some(part => typeof part !== 'object' && isSecret(name, part))
  if ((typeof value !== 'string' && typeof value !== 'number') || value === '') return false
  const word = snake(name)
  const text = String(value)
  if (PIN.test(word)) return text === MASK || /^\d{4,12}$/.test(text)
  if (EITHER.test(word)) return !METHOD.test(text) && !/^-?\d{1,3}(?:\.|$)/.test(text)
  return MAYBE.test(word) && (text === MASK || looksMade(text))
}

/** Keys for the name and for the value in a pair. */
const LABEL =
  /^(?:(?:key|header|field|option|param|parameter|property|attribute|setting|var|variable)(?:_?name)?|name|title|id|label|type|kind|k|n)$/i
export const VALUE =
  /^(?:(?:header|field|option|param|parameter|attribute)_?)?(?:v|val|values?|content|text|data|string|default|raw)$/i

/** Texts that name the value of a pair. */
export const labelsOf = (pair: object): string[] =>
  Object.entries(pair).flatMap(([name, text]) => (LABEL.test(name) && typeof text === 'string' ? [text] : []))

/** Keys that are secrets next to the name of a network. */
const BESIDE = /^(?:key|pin|puk|seed)$/i
const NETWORK_NAME = /^(?:[be]?ssid|apn|imsi)$/i

/**
 * True for a value that is named like a secret in its place: by its key, by the label of its pair, or as a key next to
 * the name of a network.
 */
export function holdsSecret(around: unknown, name: string | number): boolean {
  if (isSecret(String(name), Object(around)[name])) return true
  if (BESIDE.test(String(name)) && typeof Object(around)[name] !== 'object')
    return Object.keys(Object(around)).some(other => NETWORK_NAME.test(snake(other)))
  if (!Array.isArray(around))
    return VALUE.test(String(name)) && labelsOf(Object(around)).some(label => isSecret(label, Object(around)[name]))
  // [name, value], alternating names and values, --name value
  const before: unknown = around[Number(name) - 1]
  // consecutive configuration keys are no pairs
  const paired = around.length % 2 === 0 && Number(name) % 2 === 1 && !String(before).includes('.')
  return typeof before === 'string' && (paired || before.startsWith('-')) && isSecret(before, around[Number(name)])
}

const URL = /([a-z][a-z0-9+.-]{0,30}:\/\/)([^\s"'<>`]+)/gi
const KIND = '((?:(?:bearer|basic|digest|token|bot|api-?key|key|negotiate)\\s+)?)'
const HEADER = new RegExp(
  `\\b((?:proxy-)?authorization|(?:set-)?cookie|(?:x-)?[\\w-]{0,40}(?:key|token|secret|auth))(\\s?:\\s?)${KIND}` +
    `[^\\s"',;]+(?:;\\s?[^\\s"',;]+)*`,
  'gi',
)
const IN_QUOTES = `"[^"]+"|'[^']+'`
const WORD = '(?<![\\w-])(-{0,2}[A-Za-z][\\w-]{0,60})'
const ASSIGNED = new RegExp(`${WORD}( ?=>? ?)${KIND}(${IN_QUOTES}|[^\\s"',;&]+)`, 'gi')
/** `password: x1`: in quotes, with characters that no word of a sentence has, or as the only text */
const SAID = new RegExp(
  `${WORD}(\\s?:\\s)(${IN_QUOTES}|(?=[^\\s,;]*[^\\s,;A-Za-z])[^\\s,;]+(?=[\\s,;]|$)|(?<=^[^:]*:\\s)\\S+$)`,
  'g',
)
/** `--token x`, `-u user:password` */
const ARGUMENT = /(?<!\S)(--?[A-Za-z][\w-]{0,60})(\s+)([^\s-]\S*)/g
/** `mysql -pWORD`, `sshpass -p WORD` */
const PROGRAM = /\b((?:mysql|mariadb|sshpass)[\w-]{0,20}\s(?:[^|;&\n]{0,200}?\s)?-p\s?)[^\s-]\S*/g
/** `the password is x1`: with a character that no word of a sentence has */
const SENTENCE = new RegExp(
  `\\b([A-Za-z][\\w-]{0,60})(\\s+(?:is|was|are)(?:\\s+now)?\\s+)(${IN_QUOTES}|(?=[^\\s,;]{0,200}[^\\s,;A-Za-z.)])[^\\s,;]+)`,
  'g',
)
const ELEMENT = /<([\w:-]{1,60})>[^<>]+(?=<\/)/g
/** the text of a network's QR code */
const NETWORK = /\b(WIFI:(?:[^\s;]{0,64};){0,6}P:)[^\s;]+/gi
/** a member of truncated JSON */
const QUOTED = /("([^"\\]{1,60})"\s?:\s?)"(?:[^"\\]|\\.)+"/g
const BEARER = /\b(bearer\s+)([\w.~+/=-]{8,})/gi
const BOT = /\bbot\d+(?::|%3a)[^\s/"'?#]+/gi
const PRIVATE_KEY = /PRIVATE KEY-----/
/** parameters of URLs that contain a secret in common services */
const PARAMETER = /^(?:key|k|p|pw|sig|signature|auth|code|hash|sas)$/i
const HEADER_NAME = /^(?:x-|api|proxy-|authorization|set-cookie|cookie)/i

/** A part of a path that was generated: 16 letters and digits in a row. */
const looksMade = (segment: string): boolean =>
  (segment.match(/[A-Za-z0-9]{16,}/g) ?? []).some(run => /\d/.test(run) && /[A-Za-z]/.test(run))

function maskUrl(address: string): string {
  const [, before = '', after = ''] = /^([^?#]*)([\s\S]*)$/.exec(address) ?? []
  let authority = /^[^/]*/.exec(before)![0]
  // a password with a slash in it: the text after the colon is no port
  if (!authority.includes('@') && /:[^/]*\D/.test(authority) && !authority.includes(']') && before.includes('@'))
    authority = before.slice(0, /^[\s\S]*@[^/]*/.exec(before)![0].length)
  const path = before.slice(authority.length)
  const at = authority.lastIndexOf('@')
  const host = authority.slice(at + 1)
  let hook = /hook|telegram/i.test(host)
  let named = false
  const segments = path.split('/').map(segment => {
    const shown = segment !== '' && (hook || named || looksMade(segment)) ? MASK : segment
    hook ||= /hook/i.test(segment)
    named = segment === 'key' || isSecretName(segment)
    return shown
  })
  const parameters = after.replace(/([?&;#])([^=&;#]{1,100})=([^&;#]*)/g, (all, mark: string, name: string, value) =>
    value !== '' && (PARAMETER.test(name) || isSecretName(name)) ? `${mark}${name}=${MASK}` : all,
  )
  return `${at < 0 ? '' : `${MASK}@`}${host}${segments.join('/')}${parameters}`
}

/** `user:password@host` without a scheme; a hash after the @ is no host. */
const USER_INFO = /(?<![^\s"'<>`])[^\s"'<>`]+@(?!sha\d+:)/g

/** A text with its secrets masked. */
export function maskText(text: string): string {
  if (PRIVATE_KEY.test(text)) return MASK
  const json = /^\s*[[{"]/.test(text) ? orElse(undefined, () => JSON.parse(text) as unknown) : undefined
  if (json !== undefined) {
    const shown = orElse(MASK, () => JSON.stringify(masked(json)))
    return shown === orElse('', () => JSON.stringify(json)) ? text : shown
  }
  // fast path: most texts have no secret
  if (!/[:=<]|bearer|(?<!\S)-|\s(?:is|was|are)\s/i.test(text)) return text
  return text
    .replace(URL, (_, scheme: string, address: string) => scheme + maskUrl(address))
    .replace(USER_INFO, word => (/:/.test(word) && !/:\/\/|^mailto:/.test(word) ? `${MASK}@` : word))
    .replace(HEADER, (all, name: string, colon: string, kind: string) =>
      HEADER_NAME.test(name) &&
      (!/auth$/i.test(name) || isSecret(name, all.slice(name.length + colon.length + kind.length)))
        ? `${name}${colon}${kind}${MASK}`
        : all,
    )
    .replace(ASSIGNED, (all, name: string, is: string, kind: string, value: string) =>
      isSecret(name, value) && !value.startsWith(MASK) ? `${name}${is}${kind}${MASK}` : all,
    )
    .replace(SAID, (all, name: string, colon: string, value: string) =>
      isSecret(name, value) && !value.startsWith(MASK) && (isSecretName(name) || !WORD_ALONE.test(value))
        ? `${name}${colon}${MASK}`
        : all,
    )
    .replace(ARGUMENT, (all, name: string, blank: string, value: string) =>
      (/^(?:-u|--user)$/.test(name) ? value.includes(':') : isSecret(name, value)) ? `${name}${blank}${MASK}` : all,
    )
    .replace(SENTENCE, (all, name: string, is: string, value: string) =>
      isSecret(name, value) && !value.startsWith(MASK) && (/\D/.test(value) || PIN.test(snake(name)))
        ? `${name}${is}${MASK}`
        : all,
    )
    .replace(PROGRAM, `$1${MASK}`)
    .replace(ELEMENT, (all, name: string) => (isSecretName(name) ? `<${name}>${MASK}` : all))
    .replace(NETWORK, `$1${MASK}`)
    .replace(QUOTED, (all, before: string, name: string) => (isSecretName(name) ? `${before}"${MASK}"` : all))
    .replace(BEARER, `$1${MASK}`)
    .replace(BOT, `bot${MASK}`)
}

/** The schema's marks of a value: whether it is a secret, and the marks of its members. */
export interface Marks {
  readonly secret: boolean
  below(name: string | number): Marks | undefined
}

/** A copy of plain data with secrets masked. Empty ones stay empty, to show whether a value is set. */
export function masked<T>(value: T, secret?: boolean, marks?: Marks): T
export function masked(value: unknown, secret = false, marks?: Marks): unknown {
  if (secret || marks?.secret) return isEmptySecret(value) ? value : MASK
  if (typeof value === 'string') return maskText(value)
  if (typeof value !== 'object' || value === null) return value
  const below = (name: string | number, item: unknown): unknown =>
    masked(item, holdsSecret(value, name), marks?.below(name))
  return Array.isArray(value)
    ? value.map((item, k) => below(k, item))
    : Object.fromEntries(Object.entries(value).map(([name, item]) => [name, below(name, item)]))
}

/** True for an empty value: an empty secret is shown as such. */
export const isEmptySecret = (value: unknown): boolean => value === '' || value === null || value === undefined
