// docs/deploy-upstream.md: its examples are valid for the programs that read them.
// Needs: compose haproxy nftables
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { removeDir, root, tempDir } from '../../lib/gateway'
import { EMPTY_NETWORK } from '../../lib/own-network'

const require = createRequire(join(root, 'package.json'))
const { parse, parseAllDocuments } = require('yaml') as {
  parse(text: string): unknown
  parseAllDocuments(text: string): { toJS(): Manifest }[]
}
interface Manifest {
  apiVersion: string
  kind: string
  data?: Record<string, string>
  spec?: { ports?: object[] }
}

const page = readFileSync(join(root, 'docs/deploy-upstream.md'), 'utf8')
const blocks = [...page.matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)].map(([, language, text]) => ({
  language,
  text: text!,
}))
const block = (word: string): string => {
  const found = blocks.filter(({ text }) => text.includes(word))
  assert.equal(found.length, 1, `blocks with ${word}`)
  return found[0]!.text
}
const dir = tempDir()
after(() => removeDir(dir))

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
  const text = block('depends_on')
  const check = (body: string) => reads(['sh', '-c', 'docker-compose -f "$1" config', '-'], 'compose.yaml', body)
  const ran = check(text)
  assert.equal(ran.status, 0, String(ran.stderr))
  assert.match(String(ran.stdout), /receiver-2:/)
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
  const manifests = parseAllDocuments(block('StatefulSet')).map(document => document.toJS())
  assert.deepEqual(
    manifests.map(({ kind }) => kind),
    ['Secret', 'ConfigMap', 'Service', 'StatefulSet'],
  )
  for (const manifest of manifests) validate(manifest)
  assert.throws(() => validate({ ...manifests[2]!, spec: { ports: [{ port: 'many' }] } }), /port/)
  const inside = JSON.parse(manifests[1]!.data!['Config.json']!)
  const above = parse(block('"retention_days": 365')) as typeof inside
  assert.deepEqual(Object.keys(inside), Object.keys(above))
  assert.deepEqual(inside.gateway, above.gateway)
})

test('nft and haproxy accept the load balancer examples', () => {
  const rules = reads([...EMPTY_NETWORK, 'nft', '-c', '-f'], 'balancer.nft', block('jhash'))
  assert.equal(rules.status, 0, String(rules.stderr))
  const proxy = reads(['/usr/sbin/haproxy', '-c', '-f'], 'haproxy.cfg', block('redispatch'))
  assert.equal(proxy.status, 0, String(proxy.stderr))
})
