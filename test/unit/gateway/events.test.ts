import assert from 'node:assert/strict'
import { test } from 'node:test'
import { EventChannel, GatewayEvents } from '../../../src/gateway/events'
import { createLogger } from '../../../src/lib/logger'

function rig() {
  const lines: string[] = []
  const waiting: (() => void)[] = []
  return {
    lines,
    waiting,
    options: {
      logger: createLogger({ write: line => void lines.push(line) }),
      defer: (run: () => void) => void waiting.push(run),
    },
    run: () => {
      for (const one of waiting.splice(0)) one()
    },
  }
}

test('every listener gets every event in order, after the current work', () => {
  const { options, run, waiting } = rig()
  const channel = new EventChannel<number>(options)
  const [a, b]: number[][] = [[], []]
  channel.subscribe(event => a!.push(event))
  const end = channel.subscribe(event => b!.push(event))
  channel.emit(1)
  channel.emit(2)
  assert.deepEqual([a, b, waiting.length], [[], [], 1])
  run()
  assert.deepEqual(
    [a, b],
    [
      [1, 2],
      [1, 2],
    ],
  )
  channel.emit(3)
  end()
  run()
  assert.deepEqual(
    [a, b],
    [
      [1, 2, 3],
      [1, 2],
    ],
  )
})

test('without listeners no events are kept', () => {
  const { options, waiting } = rig()
  const channel = new EventChannel<number>(options)
  channel.emit(1)
  assert.deepEqual([channel.hasListeners, waiting.length], [false, 0])
  const got: number[] = []
  channel.subscribe(event => got.push(event))
  assert.equal(channel.hasListeners, true)
  assert.deepEqual(got, [])
})

test('a listener that is too slow loses its oldest events, which are counted; the others lose nothing', () => {
  const { options, run } = rig()
  const channel = new EventChannel<number>(options)
  const [slow, fast]: number[][] = [[], []]
  channel.subscribe(event => slow!.push(event), 3)
  channel.subscribe(event => fast!.push(event))
  for (let k = 0; k < 5; k++) channel.emit(k)
  run()
  assert.deepEqual([slow, fast, channel.dropped], [[2, 3, 4], [0, 1, 2, 3, 4], 2])
  for (let k = 5; k < 8; k++) channel.emit(k)
  run()
  assert.deepEqual([slow!.slice(3), channel.dropped], [[5, 6, 7], 2])
})

test('an exception in a listener is logged, and affects neither its later events nor other listeners', () => {
  const { options, run, lines } = rig()
  const events = new GatewayEvents(options)
  const seen: string[] = []
  events.onLink(({ name }) => {
    throw new Error(`no ${name}`)
  })
  events.onLink(({ name }) => seen.push(name))
  const state = { state: 'disabled' } as const
  events.links.emit({ name: 'a', state, before: state })
  events.links.emit({ name: 'b', state, before: state })
  run()
  assert.deepEqual(seen, ['a', 'b'])
  assert.match(lines.join(''), /an event listener failed: no a/)
})

test('packets are reported immediately, and a listener may be removed', () => {
  const { options, lines } = rig()
  const events = new GatewayEvents(options)
  const seen: unknown[] = []
  const end = events.onPacket(event => seen.push(event))
  const bad = events.onPacket(() => {
    throw new Error('no')
  })
  const packet = Uint8Array.of(1, 2)
  events.packet(packet, { medium: 'UDP', address: '::1' })
  assert.deepEqual(seen, [{ packet, medium: 'UDP', address: '::1' }])
  assert.match(lines.join(''), /a packet listener failed: no/)
  end()
  bad()
  events.packet(packet, { medium: 'UDP', address: '::1' })
  assert.equal(seen.length, 1)
})
