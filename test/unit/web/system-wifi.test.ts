// The Wi-Fi that the page sets, through the two files of the image.
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { systemWifi } from '../../../src/web/system-wifi'
import { removeDir } from '../../lib/gateway'
import { world } from './world'

test('a Wi-Fi is requested as lines of os-node.conf, and the reason of the system is shown', t => {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-wifi-'))
  t.after(() => removeDir(dir))
  const [request, problem] = [join(dir, 'request'), join(dir, 'problem')]
  assert.equal(systemWifi({ OS_NODE_WIFI_REQUEST: request }), undefined)
  const wifi = systemWifi({ OS_NODE_WIFI_REQUEST: request, OS_NODE_WIFI_PROBLEM: problem })!
  assert.equal(wifi.problem(), undefined)
  wifi.request({ ssid: 'Garden = 2', password: 'a pass = word', country: 'DE' })
  assert.equal(readFileSync(request, 'utf8'), 'wifi_ssid=Garden = 2\nwifi_password=a pass = word\nwifi_country=DE\n')
  wifi.request({ ssid: 'Open' })
  assert.equal(readFileSync(request, 'utf8'), 'wifi_ssid=Open\n')
  writeFileSync(problem, 'the start partition is full\n')
  assert.equal(wifi.problem(), 'the start partition is full')
})

test('only an admin sets the Wi-Fi; what os-node.conf could not hold is refused', async t => {
  const stored: unknown[] = []
  const w = await world(t, {
    context: { wifi: { problem: () => 'full', request: wifi => void stored.push(wifi) } },
  })
  assert.deepEqual((await w.send('GET', '/api/wifi')).json, { ok: true, problem: 'full' })
  const good = { ssid: 'Gärten 2', password: 'a password', country: 'DE' }
  assert.equal((await w.send('POST', '/api/wifi', good, await w.session('operator'))).status, 403)
  for (const ssid of ['', ' a', 'a ', 'a\nwifi_password=b', 'a\0b', 'ä'.repeat(17), 'x'.repeat(33), 7])
    assert.equal((await w.send('POST', '/api/wifi', { ...good, ssid })).status, 400, String(ssid))
  for (const password of ['', '1234567', 'x'.repeat(64), 'eight chär', ' password', 'password\n'])
    assert.equal((await w.send('POST', '/api/wifi', { ...good, password })).status, 400, password)
  for (const country of ['', 'de', 'DEU'])
    assert.equal((await w.send('POST', '/api/wifi', { ...good, country })).status, 400)
  assert.deepEqual(stored, [])
  for (const wifi of [good, { ssid: 'ä'.repeat(16) }, { ssid: 'x', password: 'a0'.repeat(32) }]) {
    assert.deepEqual((await w.send('POST', '/api/wifi', wifi)).json, { ok: true })
    assert.deepEqual(stored.pop(), wifi)
  }
})
