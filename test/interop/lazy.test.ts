// Unused modules are not loaded: a process of the built file with every medium enabled, but links over UDP alone, has
// neither TLS (which TCP and MQTT load) nor the native file of QUIC in memory. The same file with such links has: this
// proves that the test would notice. (Bluetooth with an adapter: test/rig/bluetooth.test.ts.)
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { answerOf } from '../lib/ask'
import { freePort, freeUdpPort, Machine, removeDir, tempDir, until } from '../lib/gateway'

const dir = tempDir()
after(() => removeDir(dir))

/** Written by the process at its end: the loaded modules. */
const PROBE = `
const { isMainThread } = require('node:worker_threads')
const { readFileSync, writeFileSync } = require('node:fs')
if (isMainThread) process.on('exit', () => {
  const builtin = process.moduleLoadList.map(name => name.replace(/^\\S+ /, ''))
  const libraries = readFileSync('/proc/self/maps', 'utf8').split('\\n').map(line => line.split(' ').pop())
  writeFileSync(process.env.OS_NODE_TEST_LOADED, JSON.stringify({ builtin, libraries }))
})`

async function loadedBy(name: string, receivers: readonly object[]) {
  const [udp, web] = [await freeUdpPort(), await freePort()]
  const machine = new Machine(join(dir, name), 'serve', {
    RESOURCES: {
      transport_status: { tcp: true, quic: true },
      application_status: { mqtt: true },
      physical_status: { uart: true, rs485: true, can: true, lora: true, bluetooth: true },
    },
    gateway: { sources: [{ name: 'cpu', type: 'cpu' }], receivers },
  })
  const [probe, loaded] = [join(dir, 'probe.cjs'), join(dir, `${name}.json`)]
  writeFileSync(probe, PROBE)
  process.env.NODE_OPTIONS = `--require ${probe}`
  process.env.OS_NODE_TEST_LOADED = loaded
  try {
    await machine.start(['--host', '127.0.0.1', '--port', String(udp), '--web-port', String(web)], web)
  } finally {
    delete process.env.NODE_OPTIONS
    delete process.env.OS_NODE_TEST_LOADED
  }
  await until('the receivers were opened', async () =>
    Object.values<{ state: string }>((await answerOf(machine, 'status')).links).every(link => link.state !== 'opening'),
  )
  await machine.stop()
  const { builtin, libraries } = JSON.parse(readFileSync(loaded, 'utf8')) as Record<string, string[]>
  const has = (part: string): boolean => libraries!.some(file => file?.includes(part))
  return { tls: builtin!.includes('tls'), quic: has('quic.node') }
}

const none = { tls: false, quic: false }

test('a gateway with links over UDP alone loads no other medium, even if all are enabled', async () => {
  assert.deepEqual(await loadedBy('plain', []), none)
})

test('a medium is loaded by the first link over it', async () => {
  const mqtt = { name: 'broker', medium: 'MQTT', host: '127.0.0.1', port: 1 }
  assert.deepEqual(await loadedBy('mqtt', [mqtt]), { ...none, tls: true })
  const serial = { name: 'port', medium: 'UART', port: '/dev/ptmx' } // each open() gives a separate terminal
  assert.deepEqual(await loadedBy('serial', [serial]), none, 'the addon opens it')
  const device = { name: 'device', medium: 'Bluetooth', peers: ['office'] }
  assert.deepEqual(await loadedBy('bluetooth', [device]), none, 'without an adapter nothing is needed')
})
