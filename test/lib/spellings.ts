// Secrets in the spellings people use, each under a key of its own, and things that only look like one.

/** Spelling → what stands in the configuration with that secret in it. */
export const SPELLINGS: Readonly<Record<string, (secret: string) => unknown>> = {
  // names, cut and written in any way
  pass_word: secret => ({ pass_word: secret }),
  'pass-word': secret => ({ 'pass-word': secret }),
  PassWord: secret => ({ PassWord: secret }),
  PASS_WORD: secret => ({ PASS_WORD: secret }),
  pass__word2: secret => ({ pass__word2: secret }),
  user_passwd_1: secret => ({ user_passwd_1: secret }),
  'Pass-Phrase': secret => ({ 'Pass-Phrase': secret }),
  pass_key: secret => ({ pass_key: secret }),
  apikey: secret => ({ apikey: secret }),
  api_key: secret => ({ api_key: secret }),
  'API-Key': secret => ({ 'API-Key': secret }),
  APIkey: secret => ({ APIkey: secret }),
  ApiKEYS: secret => ({ ApiKEYS: [secret] }),
  accessToken: secret => ({ accessToken: secret }),
  Access_TOKEN_value: secret => ({ Access_TOKEN_value: secret }),
  client_se_cret: secret => ({ client_se_cret: { deep: [secret] } }),
  web_hook: secret => ({ web_hook: secret }),
  WebHookURL: secret => ({ WebHookURL: secret }),
  // the name stands beside the secret
  'name and value': secret => [{ name: 'password', value: secret }],
  'key and value': secret => ({ key: 'Authorization', value: `Bearer ${secret}` }),
  'Name and Value': secret => [{ Name: 'X-Api-Key', Value: secret }],
  'value and header': secret => [{ value: secret, header: 'Cookie' }],
  'option and content': secret => [{ option: 'pass_word', content: { text: secret } }],
  'id, label and values': secret => [{ id: '7', label: 'Access token', values: [secret] }],
  'a header list': secret => [
    ['Accept', 'json'],
    ['Authorization', `Bearer ${secret}`],
  ],
  'a pair': secret => ['X-Auth-Token', secret],
  'names and values in turn': secret => ['accept', 'json', 'cookie', `sid=${secret}`],
  'arguments of a program': secret => ['-v', '--password', secret],
  'an argument of a program': secret => [`--password=${secret}`],
  'a pair with a number': secret => [{ name: 'pin_passcode', value: Number(`99${secret.slice(-2)}99`) }],
  // texts
  'a path of Telegram': secret => `https://api.telegram.org/bot123:${secret}/sendMessage`,
  'a path of Telegram without digits': secret => `https://api.telegram.org/bot${secret}/getMe`,
  'a path for a bot': secret => `POST /bot4711:${secret}/getMe`,
  'a path behind the word token': secret => `https://host.example/v1/token/${secret}/x`,
  'host with user and password': secret => ({ host: `user:${secret}@broker` }),
  'host with port': secret => ({ host: `user:${secret}@broker:1883` }),
  'host with signs': secret => ({ host: `me@site.example:a/${secret}@b@broker` }),
  'a data source name': secret => `me:${secret}@tcp(db:3306)/x`,
  'JSON in a text': secret => `{"user":"me","pass_word":"${secret}"}`,
  'pairs of JSON in a text': secret => `[{"name":"password","value":"${secret}"}]`,
  'JSON that is cut': secret => `{"user":"me","api_key":"${secret}","x`,
  'an assigned header': secret => `Authorization=Bearer ${secret}`,
  'an assigned word': secret => `host=x PassWord = ${secret}`,
  'a header of another kind': secret => `Authorization: Token ${secret}`,
  'two cookies': secret => `Cookie: a=b; c=${secret}`,
}

/** Values that everyone may see. */
export const HARMLESS: Readonly<Record<string, unknown>> = {
  keyboard: 'a',
  passage: 'b',
  monkey: 'c',
  token_count: 4,
  passes: 5,
  compass: 'd',
  bypass: true,
  low_pass: 0.5,
  'high-pass': 0.1,
  BandPass: [1, 2],
  secretary: 'e',
  tokenizer: 'f',
  public_key: 'g',
  key_file: '/etc/key.pem',
  password_file: '/etc/pass',
  keys: ['a', 'b'],
  tokens_used: 3,
  hosts: ['a', 'b', 'c', 'd'],
  pairs: [
    { name: 'keyboard', value: 'qwerty' },
    { key: 'token_count', value: 7 },
    { name: 'password', role: 'admin' },
  ],
  list: [
    ['Content-Type', 'json'],
    ['Monkey', 'x'],
  ],
  order: ['first', 'password'],
  host: 'broker.example:1883',
  mail: 'me@site.example',
  link: 'mailto:me@site.example',
  image: 'eclipse/mosquitto:2@sha256:abcdef',
  mac: 'aa:bb:cc:dd:ee:ff',
  path: 'https://host.example/robot/7/keyboard/x?page=2',
  time: '2026-01-02T03:04:05Z up',
  json: '{ "a": 1, "keyboard": "x" }',
  text: 'options of up: password: must be a text',
}

/** One secret for each spelling: a text that stands nowhere else. */
export const secretOf = (at: number): string => `hush${String(at + 10)}`

/** Settings of a plugin with each spelling under its number. */
export const spelled = (): Record<string, unknown> =>
  Object.fromEntries(Object.values(SPELLINGS).map((make, at) => [`s${at}`, make(secretOf(at))]))

/** The spellings whose secrets stand in a text. */
export const leaked = (text: string): string[] =>
  Object.keys(SPELLINGS).filter((_, at) => text.includes(secretOf(at)) || text.includes(`99${at + 10}99`))
