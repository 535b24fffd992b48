// docs/deploy-upstream.md: its examples are valid for the programs that read them.
// Needs: compose haproxy nftables
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { block } from '../../lib/deploy-page'
import { removeDir, root, tempDir } from '../../lib/gateway'
import { EMPTY_NETWORK } from '../../lib/own-network'

const require = createRequire(join(root, 'package.json'))
const { parse, parseAllDocuments } = require('yaml') as {
  parse(text: string): unknown
  parseAllDocuments(text: string): { toJS(): Manifest }[]
}
interface Container {
  command?: string[]
  args?: string[]
  env?: { name: string; value?: string }[]
  ports?: { containerPort: number; protocol: string }[]
}
interface PodSpec {
  initContainers: Container[]
  containers: Container[]
}
interface Manifest {
  apiVersion: string
  kind: string
  metadata: { name: string }
  stringData?: Record<string, string>
  spec?: { ports?: object[]; template?: { spec: PodSpec } }
}

const dir = tempDir()
after(() => removeDir(dir))

interface Service {
  command: string[]
  ports?: (string | { published: number | string; target: number; protocol: string })[]
}
const config = JSON.parse(block('json', '"receivers"')) as {
  device_id: string
  storage: { sql: { driver: { host: string; port: number; user: string; database: string } } }
  gateway: { receivers: { medium: string; host?: string; port: number }[] }
}
const listening = config.gateway.receivers.filter(({ medium }) => medium !== 'MQTT')
/** of a receiver: `--port` and those of Config.json */
const PORTS = ['9999/udp', ...listening.map(({ medium, port }) => `${port}/${medium === 'TCP' ? 'tcp' : 'udp'}`)]

function reads(command: string[], name: string, text: string): ReturnType<typeof spawnSync> {
  const file = join(dir, name)
  writeFileSync(file, text)
  const ran = spawnSync(command[0]!, [...command.slice(1), file], {
    encoding: 'utf8',
    env: { ...process.env, OS_DB_PASSWORD: 'x' },
  })
  return ran
}

test('the compose file is valid', () => {
  const text = block('yaml', 'depends_on')
  const check = (body: string) => reads(['sh', '-c', 'docker-compose -f "$1" config', '-'], 'compose.yaml', body)
  const ran = check(text)
  assert.equal(ran.status, 0, String(ran.stderr))
  const { services } = parse(String(ran.stdout)) as { services: Record<string, Service> }
  const taken = new Set<string>()
  for (const name of ['receiver-1', 'receiver-2']) {
    const { ports = [], command } = services[name]!
    const pairs = ports.map(one =>
      typeof one === 'string'
        ? /^(\d+):(\d+)(?:\/(\w+))?$/.exec(one)!.slice(1)
        : [String(one.published), String(one.target), one.protocol],
    )
    assert.deepEqual(
      pairs.map(([, inside, protocol]) => `${inside}/${protocol ?? 'tcp'}`),
      PORTS,
    )
    for (const [outside, , protocol] of pairs) taken.add(`${outside}/${protocol ?? 'tcp'}`)
    assert.ok(command.includes(`/etc/os-node/${name}.json`), 'a Config.json of its own, for its device_id')
  }
  assert.equal(taken.size, 2 * PORTS.length, 'no port is published twice')
  assert.notEqual(check(text.replace('depends_on', 'depend_on')).status, 0, 'a wrong key is noticed')
})

/** Throws what the schema of its kind reports. */
function validate(manifest: Manifest): void {
  const { [manifest.kind]: Kind } = require(`kubernetes-models/${manifest.apiVersion}`) as Record<
    string,
    new (
      data: Manifest,
    ) => { validate(): void }
  >
  assert.ok(Kind, `${manifest.apiVersion} has ${manifest.kind}`)
  new Kind(manifest).validate()
}

test('the manifests fit the schemas of Kubernetes, and contain the configuration shown above them', () => {
  const manifests = parseAllDocuments(block('yaml', 'initContainers')).map(document => document.toJS())
  assert.deepEqual(
    manifests.map(({ kind }) => kind),
    ['Secret', 'Service', 'StatefulSet'],
  )
  for (const manifest of manifests) validate(manifest)
  assert.throws(() => validate({ ...manifests[1]!, spec: { ports: [{ port: 'many' }] } }), /port/)
  const inside = manifests[0]!.stringData!['Config.json']!
  assert.deepEqual(JSON.parse(inside), config)
  const { initContainers, containers } = manifests[2]!.spec!.template!.spec
  const { args, ports } = containers[0]!
  assert.deepEqual(
    ports!.map(({ containerPort, protocol }) => `${containerPort}/${protocol.toLowerCase()}`),
    PORTS,
  )
  assert.deepEqual(args!.slice(0, 2), ['--config', '/data/Config.json'])
  // what the pod does before its start, in this folder
  for (const name of ['etc', 'data']) mkdirSync(join(dir, name))
  writeFileSync(join(dir, 'etc/Config.json'), inside)
  const [program, ...line] = initContainers[0]!.command!
  const here = line.map(text => text.replace('/etc/os-node-config', 'etc').replace('/data', 'data'))
  const ran = spawnSync(program!, here, { cwd: dir, env: { ...process.env, HOSTNAME: 'os-node-2' }, encoding: 'utf8' })
  assert.equal(ran.status, 0, ran.stderr)
  assert.deepEqual(JSON.parse(readFileSync(join(dir, 'data/Config.json'), 'utf8')), {
    ...config,
    device_id: 'os-node-2',
  })
})

test('the manifests of the database and the broker fit the schemas, and are what the configuration of a receiver names', () => {
  const manifests = parseAllDocuments(block('yaml', 'os-node-broker')).map(document => document.toJS())
  for (const manifest of manifests) validate(manifest)
  assert.deepEqual(
    manifests.map(({ kind, metadata }) => `${kind} ${metadata.name}`),
    ['Service database', 'StatefulSet database', 'Service broker', 'StatefulSet broker'],
  )
  const { driver } = config.storage.sql
  const { host, port } = config.gateway.receivers.find(({ medium }) => medium === 'MQTT')!
  for (const [name, listens] of [[driver.host, driver.port] as const, [host!, port] as const]) {
    const [service, set] = manifests.filter(({ metadata }) => metadata.name === name)
    assert.deepEqual(service!.spec!.ports, [{ port: listens }])
    assert.deepEqual(set!.spec!.template!.spec.containers[0]!.ports, [{ containerPort: listens }])
  }
  const [database] = manifests[1]!.spec!.template!.spec.containers
  const given = Object.fromEntries(database!.env!.map(({ name, value }) => [name, value]))
  assert.deepEqual([given['POSTGRES_USER'], given['POSTGRES_DB']], [driver.user, driver.database])
})

test('the folder of the volume belongs to the user of the image', () => {
  const lines = block('dockerfile', 'FROM')
  assert.ok(lines.indexOf('mkdir /data && chown os-node /data') > 0, lines)
  assert.ok(lines.indexOf('chown os-node /data') < lines.indexOf('USER os-node'), lines)
})

test('nft and haproxy accept the load balancer examples', () => {
  const rules = reads([...EMPTY_NETWORK, 'nft', '-c', '-f'], 'balancer.nft', block('', 'jhash'))
  assert.equal(rules.status, 0, String(rules.stderr))
  const proxy = reads(['/usr/sbin/haproxy', '-c', '-f'], 'haproxy.cfg', block('', 'redispatch'))
  assert.equal(proxy.status, 0, String(proxy.stderr))
})
