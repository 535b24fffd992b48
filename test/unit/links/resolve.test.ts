import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  type DnsAnswer,
  HostResolver,
  type HostResolverOptions,
  hostPort,
  literalAddress,
} from '../../../src/links/resolve'
import { ManualClock } from '../../lib/manual'

type Zone = Record<string, DnsAnswer[]>

function rig(zone: Zone, files: Record<string, string> = {}, more: HostResolverOptions = {}) {
  const clock = new ManualClock()
  const asked: string[] = []
  const state = { zone, out: false }
  const resolver = new HostResolver({
    clock,
    readText: path => {
      const text = files[path]
      if (text === undefined) throw Object.assign(new Error('no file'), { code: 'ENOENT' })
      return text
    },
    query: async (name, family) => {
      asked.push(`${name}/${family}`)
      if (state.out) throw Object.assign(new Error('timeout'), { code: 'ETIMEOUT' })
      const found = (state.zone[name] ?? []).filter(a => a.address.includes(':') === (family === 6))
      if (found.length === 0) throw Object.assign(new Error('none'), { code: 'ENOTFOUND' })
      return found
    },
    ...more,
  })
  return { resolver, clock, asked, state }
}

test('addresses and localhost are never looked up', async () => {
  const { resolver, asked } = rig({})
  assert.deepEqual(await resolver.resolve('192.0.2.1'), { address: '192.0.2.1', family: 4 })
  assert.deepEqual(await resolver.resolve('[2001:db8::1]'), { address: '2001:db8::1', family: 6 })
  assert.deepEqual(await resolver.resolve('localhost'), { address: '127.0.0.1', family: 4 })
  assert.deepEqual(await resolver.resolve('a.LOCALHOST.'), { address: '127.0.0.1', family: 4 })
  assert.deepEqual(asked, [])
  assert.equal(literalAddress('fe80::1%eth0')?.family, 6)
  assert.equal(literalAddress('example.org'), undefined)
  assert.equal(hostPort('::1', 8080), '[::1]:8080')
})

test('/etc/hosts comes before DNS, its IPv4 addresses first', async () => {
  const hosts = '# local\n::1 nas nas.lan # comment\n192.0.2.9\tNAS other\n'
  const { resolver, asked } = rig({}, { '/etc/hosts': hosts })
  assert.equal((await resolver.resolve('nas')).address, '192.0.2.9')
  assert.equal((await resolver.resolve('nas.lan')).address, '::1')
  assert.deepEqual(asked, [])
})

test('an answer is kept until its TTL has passed, at least 30 s', async () => {
  const { resolver, clock, asked } = rig({
    'a.example': [{ address: '192.0.2.1', ttl: 100 }],
    'b.example': [{ address: '192.0.2.2', ttl: 0 }],
  })
  await resolver.resolve('a.example')
  await resolver.resolve('b.example')
  asked.length = 0
  clock.advance(29_999)
  await resolver.resolve('a.example')
  await resolver.resolve('b.example')
  assert.deepEqual(asked, [])
  clock.advance(1)
  await resolver.resolve('b.example')
  assert.deepEqual(asked, ['b.example/4', 'b.example/6'])
  clock.advance(70_000)
  assert.equal(resolver.known('a.example'), undefined)
})

test('simultaneous lookups of one name are one query', async () => {
  const { resolver, asked } = rig({ 'a.example': [{ address: '192.0.2.1', ttl: 100 }] })
  await Promise.all([1, 2, 3].map(() => resolver.resolve('a.example')))
  assert.equal(asked.length, 2)
})

test('an outage keeps the last address, and the lookup is retried half a minute later', async () => {
  const { resolver, clock, asked, state } = rig({ 'a.example': [{ address: '192.0.2.1', ttl: 30 }] })
  await resolver.resolve('a.example')
  state.out = true
  clock.advance(30_000)
  assert.equal((await resolver.resolve('a.example')).address, '192.0.2.1')
  assert.equal(resolver.tally.stale, 1)
  const before = asked.length
  clock.advance(29_000)
  await resolver.resolve('a.example')
  assert.equal(asked.length, before)
  state.out = false
  state.zone = { 'a.example': [{ address: '192.0.2.5', ttl: 30 }] }
  clock.advance(1000)
  assert.equal((await resolver.resolve('a.example')).address, '192.0.2.5')
})

test('an address in use stays in use while DNS still names it', async () => {
  const { resolver, clock, state } = rig({ 'a.example': [{ address: '192.0.2.1', ttl: 30 }] })
  await resolver.resolve('a.example')
  state.zone['a.example'] = [
    { address: '192.0.2.7', ttl: 30 },
    { address: '192.0.2.1', ttl: 30 },
  ]
  clock.advance(30_000)
  assert.equal((await resolver.resolve('a.example')).address, '192.0.2.1')
})

test('a name with only IPv6 is resolved; with both, IPv4 is used', async () => {
  const zone = {
    'six.example': [{ address: '2001:db8::1', ttl: 30 }],
    'both.example': [
      { address: '2001:db8::2', ttl: 30 },
      { address: '192.0.2.2', ttl: 30 },
    ],
  }
  assert.equal((await rig(zone).resolver.resolve('six.example')).address, '2001:db8::1')
  assert.equal((await rig(zone).resolver.resolve('both.example')).address, '192.0.2.2')
})

test('a short name is looked up in the search domains, a trailing dot marks a full name', async () => {
  const files = { '/etc/resolv.conf': 'nameserver 192.0.2.53\nsearch home.example lan.example\n' }
  const { resolver, asked } = rig({ 'nas.lan.example': [{ address: '192.0.2.3', ttl: 30 }] }, files)
  assert.equal((await resolver.resolve('nas')).address, '192.0.2.3')
  assert.deepEqual(asked.slice(0, 1), ['nas.home.example/4'])
  await assert.rejects(resolver.resolve('nas.'), { code: 'NETWORK', message: 'cannot resolve nas. (ENOTFOUND)' })
})
