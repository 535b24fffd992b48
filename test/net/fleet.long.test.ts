// A fleet (decision 0067): 2,000 simulated gateways with separate addresses, in front of three receivers and one PostgreSQL. UDP is balanced by
// nftables with a hash over the address, TCP by HAProxy, MQTT by a shared subscription at mosquitto. A receiver is killed, one is
// added, the database server is restarted: nothing is lost or duplicated. All of it runs in its own network namespace.
// Needs: nftables conntrack haproxy
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { Machine, removeDir, root, tempDir, until } from '../lib/gateway'
import { QUARTER } from '../lib/random'
import { Server } from '../lib/servers'
import { SqlServer } from '../lib/sqlservers'
import { Fleet } from './fleet'

/** the number of gateways; half of them over UDP, 3 of 10 over MQTT, the others over TCP */
const ALL = Number(process.env.OS_NODE_FLEET ?? (QUARTER ? 500 : 2000))
const COUNTS = { udp: ALL / 2, tcp: ALL / 5, mqtt: (3 * ALL) / 10 }
const FACTS = 30
/** the port that gateways send to, and that of the first receiver; the others follow */
const [UDP, TCP] = [9999, 8888]
const [FIRST_UDP, FIRST_TCP] = [9001, 8001]

const dir = tempDir()
const machines: Machine[] = []
const servers: { stop(): Promise<void> }[] = []
after(async () => {
  for (const machine of machines) await machine.stop('SIGKILL')
  for (const server of servers) await server.stop()
  removeDir(dir)
})

if (process.env.OS_NODE_FLEET_INSIDE !== '1')
  test('a fleet of gateways in its own namespace', () => {
    const inside = spawnSync(
      'unshare',
      ['-n', 'sh', '-c', 'ip link set lo up && exec "$@"', '-', process.execPath, '--test-reporter=spec', __filename],
      {
        env: { ...process.env, OS_NODE_FLEET_INSIDE: '1', NODE_TEST_CONTEXT: '' },
        encoding: 'utf8',
        maxBuffer: 1 << 26,
      },
    )
    // the figures of docs/scale.md, which a passing run does not print
    const figures = inside.stdout.split('\n').filter(line => line.startsWith('fleet: '))
    writeFileSync(join(root, '.build/fleet.txt'), `${figures.join('\n')}\n`)
    assert.equal(inside.status, 0, `${inside.stdout}\n${inside.stderr}`)
  })
else
  test('a receiver is killed, one is added, the database is restarted: nothing is lost or duplicated', async () => {
    const server = await SqlServer.start('postgresql')
    servers.push(server)
    const sql = await server.fresh()
    const broker = await Server.start('mosquitto', {
      persistence: true,
      lines: ['max_queued_messages 0', 'max_connections -1'],
    })
    servers.push(broker)

    const receivers: { machine: Machine; start(): Promise<void> }[] = []
    const add = async (): Promise<void> => {
      const k = receivers.length
      const machine = new Machine(join(dir, `receiver${k}`), 'serve', {
        web_user: { auth_enabled: false },
        RESOURCES: { transport_status: { tcp: true }, application_status: { mqtt: true } },
        storage: { sql },
        security_settings: { id_lease: { store: 'postgresql' } },
        gateway: {
          receivers: [
            { name: 'mqtt', medium: 'MQTT', host: '127.0.0.1', port: broker.port, shared: 'pool' },
            { name: 'tcp', medium: 'TCP', host: '127.0.0.1', port: FIRST_TCP + k },
          ],
        },
      })
      machines.push(machine)
      const args = ['--host', '127.0.0.1', '--port', String(FIRST_UDP + k), '--web-port', String(7001 + k)]
      const start = () => machine.start(args, 7001 + k)
      await start()
      receivers.push({ machine, start })
    }
    for (let k = 0; k < 3; k++) await add()

    const nft = (text: string): void => {
      const ran = spawnSync('nft', ['-f', '-'], { input: text, encoding: 'utf8' })
      assert.equal(ran.status, 0, ran.stderr)
    }
    /**
     * Hash by address over these receivers, like a balancer that sees which of them answer; running flows are redistributed
     * too.
     */
    const balance = (live: readonly number[]): void => {
      nft(`table ip lb {}
delete table ip lb
table ip lb { chain out { type nat hook output priority -100;
  ip saddr 127.0.0.0/8 ip daddr 127.0.0.1 udp dport ${UDP} dnat to 127.0.0.1 : jhash ip saddr mod ${live.length} map { ${live.map((k, n) => `${n} : ${FIRST_UDP + k}`).join(', ')} }
}
}`)
      spawnSync('conntrack', ['-D', '-p', 'udp', '--orig-port-dst', String(UDP)])
    }
    balance([0, 1, 2])
    const conf = join(dir, 'haproxy.cfg')
    writeFileSync(
      conf,
      `defaults
  mode tcp
  timeout connect 2s
  timeout client 60s
  timeout server 60s
listen os
  bind 127.0.0.1:${TCP}
  balance source
  option redispatch
${[0, 1, 2, 3].map(k => `  server r${k} 127.0.0.1:${FIRST_TCP + k} check inter 500`).join('\n')}
`,
    )
    const haproxy = await Server.start('haproxy', { dir: join(dir, 'haproxy'), lines: [conf] })
    servers.push(haproxy)

    const fleet = new Fleet({ ...COUNTS, facts: FACTS, udpPort: UDP, tcpPort: TCP, brokerPort: broker.port })
    const began = performance.now()
    await fleet.identify()
    const identified = performance.now()
    assert.equal(new Set(fleet.ids()).size, ALL, 'an id for each')
    console.log(`fleet: ${ALL} ids in ${((identified - began) / 1000).toFixed(1)} s`)

    fleet.start()
    const share = (part: number): Promise<unknown> =>
      until(`${part} of the facts are acknowledged`, () => fleet.acknowledged >= part * ALL * FACTS, 600_000)
    await share(0.15)
    await receivers[0]!.machine.stop('SIGKILL')
    balance([1, 2])
    await share(0.35)
    await add()
    balance([1, 2, 3])
    await share(0.5)
    await server.server.kill()
    await share(0.6)
    await server.server.restart()
    await share(1)
    const acknowledged = performance.now()
    // what the killed one acknowledged last is on its flash, and what the broker delivered to it waits for it
    await receivers[0]!.start()
    const facts = fleet.facts()
    const stored = async (): Promise<number> =>
      Number((await server.ask('SELECT COUNT(*) FROM os_packets_data', sql.driver.database))[0]![0])
    await until('everything is in the database', async () => (await stored()) >= facts.size, 600_000)
    for (const { machine } of receivers)
      await until('nothing is pending', async () => {
        const { state, lag_records } = (await machine.ask('status')).storage
        return state === 'up' && lag_records === 0
      })
    const rows = await server.ask('SELECT device_id, t_raw FROM os_packets_data', sql.driver.database)
    const found = rows.map(([id, tRaw]) => `${id} ${Number(tRaw)}`)
    assert.equal(found.length, new Set(found).size, 'nothing twice')
    assert.equal(found.filter(key => !facts.has(key)).length, 0, 'nothing that was not sent')
    assert.equal(found.length, facts.size, 'nothing lost')
    const seconds = (acknowledged - identified) / 1000
    console.log(
      `fleet: ${facts.size} facts acknowledged in ${seconds.toFixed(1)} s, ${Math.round(facts.size / seconds)}/s; resent ${fleet.resent}`,
    )
    for (const [k, { machine }] of receivers.entries()) {
      const { received, storage, ids } = await machine.ask('status')
      const rss = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${machine.pid}/status`, 'utf8'))![1]
      const times = readFileSync(`/proc/${machine.pid}/stat`, 'utf8').split(') ')[1]!.split(' ')
      const cpu = (Number(times[11]) + Number(times[12])) / 100
      console.log(
        `fleet: receiver ${k}: ${received.facts} facts, ${storage.duplicates} known already, ${Math.round(Number(rss) / 1024)} MB, ${cpu.toFixed(1)} s of a processor, ${ids.allocated} ids`,
      )
    }
    await fleet.stop()
  })
