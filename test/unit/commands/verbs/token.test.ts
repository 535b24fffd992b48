// The token is shown once: as text, as a sign-in link, and as a QR code of that link.
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { encode } from 'uqr'
import { parseCommand, VERBS } from '../../../../src/commands'
import { banner } from '../../../../src/commands/banner'
import { configuredUrl, lanAddress, loginUrl, openable, qrCode } from '../../../../src/commands/login'
import { ConfigStore } from '../../../../src/config'
import { newToken } from '../../../../src/services/users'
import { fake } from '../fake'

const root = mkdtempSync(join(tmpdir(), 'os-node-token-'))
after(() => rmSync(root, { recursive: true, force: true }))

function config(values: object): ConfigStore {
  writeFileSync(join(root, 'Config.json'), JSON.stringify(values))
  return ConfigStore.load({ cwd: root, env: {}, keep: false })
}

/** Half blocks → modules, true means dark. */
function modules(text: string): boolean[][] {
  return text
    .split('\n')
    .flatMap(line => [[...line].map(c => c === ' ' || c === '▄'), [...line].map(c => c === ' ' || c === '▀')])
}

test('the QR code contains the link, with a light border around it', () => {
  const link = loginUrl('http://192.0.2.7:8765', 'a-_token')
  assert.equal(link, 'http://192.0.2.7:8765/#/?token=a-_token')
  const drawn = modules(qrCode(link))
  const { data, size } = encode(link, { border: 2 })
  assert.deepEqual(drawn.slice(0, size), data)
  assert.ok(drawn[0]!.every(dark => !dark) && drawn[1]!.every(dark => !dark))
  assert.ok(
    qrCode(link)
      .split('\n')
      .every(line => line.length <= 78),
    'it fits a terminal',
  )
})

test('a page that listens on all addresses is shown with an address that other machines can use', () => {
  const of = (address: string, internal: boolean, family = 'IPv4') => ({ address, internal, family }) as never
  const interfaces = {
    lo: [of('127.0.0.1', true)],
    wlan0: [of('169.254.3.4', false), of('fe80::1', false, 'IPv6')],
    eth0: [of('192.0.2.9', false)],
  }
  assert.equal(loginUrl('http://0.0.0.0:8765', 't', interfaces), 'http://192.0.2.9:8765/#/?token=t')
  assert.equal(loginUrl('https://[::]:1', 't', interfaces), 'https://192.0.2.9:1/#/?token=t')
  assert.equal(loginUrl('http://0.0.0.0:8765', 't', {}), 'http://127.0.0.1:8765/#/?token=t')
  assert.equal(loginUrl('http://127.0.0.1:8765', 't', interfaces), 'http://127.0.0.1:8765/#/?token=t')
  assert.equal(openable('http://0.0.0.0:8765', interfaces), 'http://192.0.2.9:8765')
  // the network of the default route comes first; a phone cannot reach those of containers and tunnels
  const many = { docker0: [of('172.17.0.1', false)], ...interfaces, wlan1: [of('192.0.2.77', false)] }
  assert.equal(lanAddress(many, []), '192.0.2.9')
  assert.equal(lanAddress(many, ['wlan1']), '192.0.2.77')
  assert.equal(lanAddress(many, ['docker0', 'gone0']), '192.0.2.9')
  assert.equal(lanAddress({ docker0: [of('172.17.0.1', false)] }, ['docker0']), undefined)
})

test('the banner shows an address of the page that can be opened', () => {
  const gateway = { deviceId: 'gw', assignedId: 7, uplinks: [], localUpstream: null }
  const said = (url: string | null): string =>
    /look at +(.*)/.exec(banner(gateway, config({}), 'run', url, null, {}))![1]!
  assert.equal(said('http://0.0.0.0:8765'), openable('http://0.0.0.0:8765'))
  assert.doesNotMatch(said('https://[::]:8765'), /0\.0\.0\.0|\[::\]/)
  assert.equal(said('http://127.0.0.1:8765'), 'http://127.0.0.1:8765')
  assert.match(said(null), /^os-node tui/)
  // run --lan says what the browser of a phone will warn of; with a certificate of the user it says nothing
  const lan = (url: string, token: string | null, values = {}): string =>
    banner(gateway, config(values), 'run', url, token, { lan: true })
  assert.match(
    lan('https://192.0.2.7:8765', 'a-_token'),
    /self-signed[\s\S]*sign in with +https:\/\/192\.0\.2\.7[\s\S]*█▄/,
  )
  assert.match(lan('https://192.0.2.7:8765', null), /sign in with the token; os-node token --new/)
  assert.match(lan('https://127.0.0.1:8765', 'a'), /no network address yet/)
  const own = { web_user: { tls: { cert: '/a', key: '/b' } } }
  assert.doesNotMatch(lan('https://192.0.2.7:8765', 'a', own), /self-signed|no address/)
})

test('without a running gateway the link uses the page address of the configuration', () => {
  const plugins = { service_plugins: { web_user: { host: '::1', port: 9 } } }
  assert.equal(configuredUrl(config({ RESOURCES: plugins })), 'http://[::1]:9')
  assert.equal(configuredUrl(config({ web_user: { tls: 'self_signed' } })), 'https://127.0.0.1:8765')
})

test("token --new prints token, link and QR code; in a gateway it prints the link of that gateway's page", async () => {
  const { verb, options } = parseCommand(VERBS, ['token', '--new'])
  const paint = Object.fromEntries(['bold', 'dim', 'good', 'bad', 'warn'].map(how => [how, (t: string) => t])) as never
  const local = await verb.run(fake(config({})).context, options)
  assert.deepEqual(local.value, { token: 'a-new-token', login_url: 'http://127.0.0.1:8765/#/?token=a-new-token' })
  assert.match(verb.text!(local.value!, paint), /^a-new-token\n[\s\S]*#\/\?token=a-new-token\n/)
  // a phone cannot open the loopback address of this machine
  assert.doesNotMatch(verb.text!(local.value!, paint), /█/)
  const running = fake(config({}), { inGateway: true, webUrl: () => 'http://192.0.2.7:1234' }).context
  const there = await verb.run(running, options)
  assert.deepEqual(there.value, { token: 'a-new-token', login_url: 'http://192.0.2.7:1234/#/?token=a-new-token' })
  assert.match(verb.text!(there.value!, paint), /█▄/)
  const bare = parseCommand(VERBS, ['token'])
  await assert.rejects(bare.verb.run(running, bare.options), { code: 'USAGE' })
})

test('a new token also works for the local upstream that the gateway started; without one, no file is made', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-token-'))
  try {
    const kept = () => readFileSync(join(dir, 'upstream/token.json'), 'utf8')
    await newToken(dir)
    assert.throws(kept, { code: 'ENOENT' })
    mkdirSync(join(dir, 'upstream'))
    writeFileSync(join(dir, 'upstream/token.json'), readFileSync(join(dir, 'token.json')))
    const before = kept()
    await newToken(dir)
    assert.notEqual(kept(), before)
    assert.equal(kept(), readFileSync(join(dir, 'token.json'), 'utf8'))
  } finally {
    rmSync(dir, { recursive: true })
  }
})
