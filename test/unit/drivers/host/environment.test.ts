import assert from 'node:assert/strict'
import { readdirSync, readlinkSync } from 'node:fs'
import { test } from 'node:test'
import { hostEnvironment, procText } from '../../../../drivers/host/environment'
import { systemClock } from '../../../../src/lib/clock'
import { silentLogger } from '../../../../src/lib/logger'

test('a file of /proc is opened once, and each read has its text of that moment', async () => {
  const env = hostEnvironment({ clock: systemClock, logger: silentLogger })
  const opened = (): number =>
    readdirSync('/proc/self/fd').filter(fd => {
      try {
        return readlinkSync(`/proc/self/fd/${fd}`) === '/proc/uptime'
      } catch {
        return false // the one that lists them
      }
    }).length
  const uptimes = [procText(env, 'uptime')]
  await new Promise(resolve => setTimeout(resolve, 20))
  uptimes.push(procText(env, 'uptime'))
  assert.match(uptimes[0]!, /^\d+\.\d\d \d+\.\d\d\n$/)
  assert.ok(Number.parseFloat(uptimes[1]!) > Number.parseFloat(uptimes[0]!), uptimes.join())
  assert.equal(opened(), 1)
  assert.throws(() => procText(env, 'no_such_file'), { code: 'NOT_FOUND' })
})
