// The files of docs/deploy-upstream.md at work: a receiver with its Config.json, read-only as in the container, mosquitto with its
// mosquitto.conf, the certificates and passwords of its commands, and a gateway with its Config.json. Only names, ports and folders differ.
// Needs: openssl quic quicnode
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, chownSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { block } from '../lib/deploy-page'
import { freePort, freeUdpPort, Machine, removeDir, script, tempDir, until } from '../lib/gateway'
import { startMosquitto } from '../lib/servers'
import { SqlServer } from '../lib/sqlservers'

const NOBODY = 65_534
const dir = tempDir()
const machines: Machine[] = []
after(async () => {
  for (const machine of machines) await machine.stop('SIGKILL')
  removeDir(dir)
})

/** The text with each of these replaced everywhere; each must be there. */
function replaced(text: string, by: Record<string, string | number>): string {
  let result = text
  for (const [from, to] of Object.entries(by)) {
    assert.ok(result.includes(from), `${from} in ${text}`)
    result = result.replaceAll(from, String(to))
  }
  return result
}

test('receiver, broker and gateway of the page: TLS and passwords fit, all listen, the name stays, packets reach the database', async t => {
  const server = await SqlServer.start('postgresql')
  t.after(() => server.stop())
  const { driver } = await server.fresh()
  process.env.OS_DB_PASSWORD = driver.password
  const [mqtt, tcp, quic] = [await freePort(), await freePort(), await freeUdpPort()]
  const receiverJson = replaced(block('json', '"receivers"'), {
    '"database",': '"127.0.0.1",',
    5432: driver.port,
    '"os_node", "user"': `"${driver.database}", "user"`,
    '"broker"': '"localhost"',
    8883: mqtt,
    8888: tcp,
    4433: quic,
    '/etc/os-node': join(dir, 'receiver'),
  })

  writeFileSync(join(dir, 'Config.json'), receiverJson)
  const commands = replaced(block('sh', 'mosquitto_passwd'), { 'up.example.org': 'localhost' })
  const made = spawnSync('sh', ['-c', commands], { cwd: dir, encoding: 'utf8' })
  assert.equal(made.status, 0, made.stderr)
  const conf = replaced(block('', 'password_file'), {
    8883: mqtt,
    '/mosquitto/config': join(dir, 'broker'),
    '/mosquitto/data': join(dir, 'broker'),
  })
  const broker = await startMosquitto({ dir: join(dir, 'broker'), port: mqtt, lines: conf.trim().split('\n') })
  t.after(() => broker.stop())

  // as in the container: only the data directory belongs to the user; a folder above the repository may be closed to that user
  const reads = ['--reuid', String(NOBODY), '--clear-groups', 'test', '-r', script]
  const root = process.getuid?.() === 0 && spawnSync('setpriv', reads).status === 0
  if (process.getuid?.() === 0 && !root) t.diagnostic(`${script} is closed to other users: the receiver runs as root`)
  const own = join(dir, 'receiver-1')
  const prefix = root ? ['setpriv', `--reuid=${NOBODY}`, '--clear-groups'] : []
  const receiver = new Machine(own, 'serve', JSON.parse(receiverJson), prefix)
  receiver.node = process.env.OS_NODE_QUIC_NODE ?? process.execPath
  machines.push(receiver)
  mkdirSync(receiver.dataDir)
  if (root) chownSync(receiver.dataDir, NOBODY, NOBODY)
  for (const path of [dir, join(dir, 'receiver')]) chmodSync(path, 0o755)
  chmodSync(join(dir, 'receiver/server.key'), 0o644)
  chmodSync(receiver.config, 0o444)
  chmodSync(own, 0o555)
  t.after(() => chmodSync(own, 0o755))
  const web = await freePort()
  const args = ['--host', '127.0.0.1', '--port', String(await freeUdpPort()), '--web-port', String(web)]
  await receiver.start(args, web)
  const status = () => receiver.ask('status')
  for (const name of ['udp', 'mqtt', 'tcp', 'quic'])
    await until(`${name} listens`, async () => (await status()).links[name].state === 'up').catch(async error =>
      assert.fail(`${error}: ${JSON.stringify((await status()).links[name])}`),
    )
  const { identity, disk } = await status()
  assert.deepEqual([identity.device_id, disk?.in_ram], ['receiver-1', undefined])

  const gateway = new Machine(
    join(dir, 'gateway'),
    'run',
    JSON.parse(
      replaced(block('json', '"uplinks"'), {
        'up.example.org': 'localhost',
        8883: mqtt,
        '/etc/os-node': dir,
      }),
    ),
  )
  machines.push(gateway)
  const page = await freePort()
  await gateway.start(['--port', String(page)], page)
  await until('packets are acknowledged', async () => (await gateway.ask('status')).uplinks.mqtt.acked > 2)
  const stored = await until('packets are in the database', async () => {
    const rows = await server.ask('SELECT DISTINCT device_id FROM os_packets_data', driver.database)
    return rows.length > 0 && rows.flat()
  })
  assert.deepEqual(stored, ['gateway-1'])
})
