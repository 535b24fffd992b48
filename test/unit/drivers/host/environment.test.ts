import assert from 'node:assert/strict'
import { readdirSync, readlinkSync } from 'node:fs'
import { test } from 'node:test'
import { hostEnvironment, procText } from '../../../../drivers/host/environment'
import { CpuProbe, MemoryProbe, NetworkProbe, UptimeProbe } from '../../../../drivers/host/proc'
import { systemClock } from '../../../../src/lib/clock'
import { silentLogger } from '../../../../src/lib/logger'

const env = hostEnvironment({ clock: systemClock, logger: silentLogger })

/** the files of /proc that this process has open */
const open = (): string[] =>
  readdirSync('/proc/self/fd').flatMap(fd => {
    try {
      const path = readlinkSync(`/proc/self/fd/${fd}`)
      return /^\/proc\/\D/.test(path) || path.endsWith('/net/dev') ? [path] : []
    } catch {
      return [] // the one that lists them
    }
  })

test('the scan opens the files of a source, so that reads continue without a free descriptor', async () => {
  for (const [probe, files] of [
    [new CpuProbe(env), ['stat', 'loadavg']],
    [new MemoryProbe(env), ['meminfo']],
    [new UptimeProbe(env), ['uptime']],
    [new NetworkProbe(env, '*'), ['net/dev']],
  ] as const) {
    const sensors = await probe.scan()
    const scanned = open()
    for (const file of files) assert.equal(scanned.filter(path => path.endsWith(`/${file}`)).length, 1, file)
    await (probe.sample as (of: unknown) => Promise<unknown>).call(probe, sensors)
    assert.deepEqual(open(), scanned)
  }
})

test('a file of /proc is opened once, and each read returns its current text', async () => {
  const opened = (): number => open().filter(path => path === '/proc/uptime').length
  const uptimes = [procText(env, 'uptime')]
  await new Promise(resolve => setTimeout(resolve, 20))
  uptimes.push(procText(env, 'uptime'))
  assert.match(uptimes[0]!, /^\d+\.\d\d \d+\.\d\d\n$/)
  assert.ok(Number.parseFloat(uptimes[1]!) > Number.parseFloat(uptimes[0]!), uptimes.join())
  assert.equal(opened(), 1)
  assert.throws(() => procText(env, 'no_such_file'), { code: 'NOT_FOUND' })
})
