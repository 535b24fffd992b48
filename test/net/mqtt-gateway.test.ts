// The complete path: gateway → broker → upstream, with TLS and a password; the id is requested over the broker too. The
// broker goes away and returns, a backlog is drained, and in the end both sides have the same facts, none twice.
// Long: QoS 2 and 0
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { makeCerts } from '../lib/certs'
import { askControl } from '../lib/control'
import { databaseKeys, freePort, freeUdpPort, Machine, removeDir, sleep, tempDir, until } from '../lib/gateway'
import { rounds } from '../lib/random'
import { assertSame } from '../lib/same'
import { startMosquitto } from '../lib/servers'

const dir = tempDir()
const machines: Machine[] = []
after(async () => {
  for (const machine of machines) await machine.stop('SIGKILL')
  removeDir(dir)
})

const certs = makeCerts(join(dir, 'certs'))
const passwords = join(dir, 'passwords')
writeFileSync(passwords, 'node:secret\n')
execFileSync('mosquitto_passwd', ['-U', passwords])

const WAYS = [
  [1, 5],
  [2, 5],
  [0, 5],
] as const
for (const [qos, version] of WAYS.slice(0, rounds(1, WAYS.length)))
  test(`QoS ${qos}, version ${version}: after restarts of the broker both sides have the same facts`, async t => {
    const home = join(dir, `${qos}-${version}`)
    const broker = await startMosquitto({
      persistence: true,
      dir: join(home, 'broker'),
      lines: [
        'max_queued_messages 0',
        'allow_anonymous false',
        `password_file ${passwords}`,
        `cafile ${certs.ca}`,
        `certfile ${certs.serverCert}`,
        `keyfile ${certs.serverKey}`,
      ],
    })
    t.after(() => broker.stop())
    const link = {
      name: 'mqtt',
      medium: 'MQTT',
      host: 'localhost',
      port: broker.port,
      tls: { ca: certs.ca },
      username: 'node',
      password: 'secret',
      qos,
      protocol_version: version,
    }
    const RESOURCES = { application_status: { mqtt: true } }
    const sources = [
      { name: 'cpu', type: 'cpu', interval_ms: 100 },
      { name: 'memory', type: 'memory', interval_ms: 130 },
    ]
    const up = new Machine(join(home, 'up'), 'serve', {
      web_user: { auth_enabled: false },
      RESOURCES,
      gateway: { receivers: [link] },
    })
    const config = (list: object[]): Record<string, unknown> => ({
      device_id: 'GW1',
      RESOURCES,
      gateway: { sources: list, uplinks: [link], log: { commit_interval_ms: 100 } },
    })
    const gw = new Machine(join(home, 'gw'), 'run', config(sources))
    machines.push(up, gw)
    const upWeb = await freePort()
    const gwWeb = await freePort()
    const serveArgs = ['--host', '127.0.0.1', '--port', String(await freeUdpPort()), '--web-port', String(upWeb)]
    await up.start(serveArgs, upWeb)
    await gw.start(['--port', String(gwWeb)], gwWeb)
    const status = () => askControl(gw.dataDir, 'status')
    /** The current content of the log; the sources continue meanwhile. */
    const delivered = async (what: string): Promise<void> => {
      const newest = (await status()).log.last_seq as number
      await until(what, async () => (await status()).uplinks.mqtt.cursor >= newest)
    }
    await until('packets are acknowledged', async () => (await status()).uplinks.mqtt.acked > 20)

    // a stopped broker keeps its sessions; the upstream is away for a while too
    await broker.restart()
    await delivered('packets are acknowledged again')
    await up.stop('SIGKILL')
    await sleep(1000)
    await up.start(serveArgs, upWeb)
    await gw.stop('SIGKILL')
    await gw.start(['--port', String(gwWeb)], gwWeb)
    await delivered('the backlog is delivered')
    await gw.stop('SIGTERM')
    // the records that the stop had no time for
    gw.configure(config([]))
    await gw.start(['--port', String(gwWeb)], gwWeb)
    await until('nothing is left', async () => (await status()).uplinks.mqtt.backlog === 0)
    await gw.stop('SIGTERM')

    const inLog = gw.logKeys()
    const inDatabase = await until('the view has every record', async () => {
      const keys = await databaseKeys(upWeb, '')
      return keys.length >= inLog.length ? keys : null
    }).catch(async error => assert.fail(`${error}: ${JSON.stringify((await up.ask('status')).received)}`))
    assert.ok(inLog.length > 20, `${inLog.length} facts`)
    await up.stop()
    assertSame(gw.logFacts(), up.logFacts())
    assert.deepEqual(inDatabase, up.logKeys())
  })
