import assert from 'node:assert/strict'
import os from 'node:os'
import { test } from 'node:test'
import { filesReport, LOOK_MS, Resources } from '../../../../src/gateway/guard/resources'
import { asOsError, descriptors, OsError, outOfFiles } from '../../../../src/lib/errors'
import { silentLogger } from '../../../../src/lib/logger'
import { networkState } from '../../../../src/links/network'
import { ManualClock, ManualTimers } from '../../../lib/manual'
import { systemError } from '../../log/memfiles'

const emfile = (): never => {
  throw systemError('EMFILE')
}

test('a process out of descriptors gives one error with its own hint, whichever call reports it, and it is counted', () => {
  const before = descriptors.refused
  const unknown = Object.assign(new Error('uv_interface_addresses returned Unknown system error 24'), {
    code: 'ERR_SYSTEM_ERROR',
  })
  for (const thrown of [systemError('EMFILE'), systemError('ENFILE'), unknown]) {
    const error = asOsError(thrown, 'LINK_DOWN')
    assert.deepEqual([error.code, error.retryable, error.cause], ['NO_DESCRIPTORS', true, thrown])
    assert.match(error.hint, /LimitNOFILE/)
  }
  assert.equal(descriptors.refused, before + 3)
  for (const other of [systemError('ENOENT'), new Error('system error 240'), new OsError('LINK_DOWN', 'away'), null])
    assert.equal(outOfFiles(other), undefined)
  assert.equal(descriptors.refused, before + 3)
  const { open, limit, refused } = filesReport()
  assert.ok(open > 2 && open <= limit)
  assert.equal(refused, before + 3)
})

test('when the interfaces cannot be read, the last known ones count, and no change of the network is seen', t => {
  const before = networkState()
  t.mock.method(os, 'networkInterfaces', emfile)
  assert.equal(networkState(), before)
})

test('when the memory cannot be read, the last known value counts', async t => {
  const timers = new ManualTimers(new ManualClock())
  const resources = new Resources({
    ...{ logger: silentLogger, timers, memoryLimit: () => 0, lagLimit: () => 0 },
    changed: () => undefined,
  })
  resources.start()
  await timers.advance(LOOK_MS)
  const { rss } = resources.report()
  assert.ok(rss > 0)
  t.mock.method(process.memoryUsage, 'rss', emfile)
  await timers.advance(3 * LOOK_MS)
  assert.equal(resources.report().rss, rss)
  resources.stop()
})
