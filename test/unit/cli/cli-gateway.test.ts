// The command line and a running gateway: commands run inside it, an owner of the lock that does not answer, and progress of long work.
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { type CommandContext, runRequest } from '../../../src/commands'
import { ConfigStore } from '../../../src/config'
import { startControl } from '../../../src/gateway/control'
import { acquireLock } from '../../../src/gateway/lock'
import { fake, STATUS } from '../commands/fake'
import { rig } from './cli-world'

/** A gateway's lock and socket with a fake gateway behind them. */
async function gatewayOn(
  cwd: string,
  change = (context: CommandContext) => context,
): Promise<{ calls: unknown[][]; stop(): Promise<void> }> {
  const dataDir = join(cwd, 'data')
  const lock = await acquireLock(dataDir, 'run')
  const { context, calls } = fake(ConfigStore.load({ cwd, env: {} }), { inGateway: true })
  const server = await startControl({
    dataDir,
    run: (request, watch) => runRequest(change({ ...context, ...watch }), request),
  })
  lock.setSocket(server.path)
  return {
    calls,
    stop: async () => {
      await server.close()
      lock.release()
    },
  }
}

test('every command finds a running gateway and runs inside it', async () => {
  const { cli, cwd, out, err, setups } = rig('{"device_id": "D"}')
  const gateway = await gatewayOn(cwd)
  try {
    assert.equal(await cli('status --json'), 0)
    assert.deepEqual(JSON.parse(out.text), { ...STATUS, via: 'gateway' })
    await cli('status')
    assert.match(out.text, /running for 1 min 1 s[\s\S]*cloud +down +acked +1 +2 +3 +no answer/)
    for (const line of [
      'transmit --value -4',
      'decode --hex 3f',
      'ensure-id',
      'time-sync',
      'config-get --key device_id',
      'config-set --key device_id --value E',
      'config-show',
      'log verify',
      'token --new',
    ]) {
      assert.equal(await cli(`${line} --json`), 0, line)
      assert.equal(JSON.parse(out.text).via, 'gateway', line)
    }
    assert.equal(setups.length, 0)
    assert.deepEqual(gateway.calls[0], ['transmit', { sensors: [['V1', 'OK', -4, 'Pa']], device_status: 'ONLINE' }])
    assert.equal(await cli('decode --hex 00'), 1)
    assert.equal(await cli('config-set --key engine_settings.precision --value 99'), 3)
    assert.match(err.text, /0–10/)
    assert.equal(out.text, '')
    assert.equal(await cli('log export --from 4'), 0)
    assert.deepEqual(
      out.text
        .trim()
        .split('\n')
        .map(line => JSON.parse(line).seq),
      [4, 5, 6],
    )
  } finally {
    await gateway.stop()
  }
  assert.equal(await cli('status --json'), 0)
  assert.equal(JSON.parse(out.text).via, 'local')
})

test('a --sensors file is read by the calling process, also when a gateway sends', async () => {
  const { cli, cwd, out, err } = rig('{}')
  const file = join(cwd, 'r.json')
  writeFileSync(file, '[["T1","OK",5,"Cel"]]')
  const gateway = await gatewayOn(cwd)
  try {
    assert.equal(await cli(['transmit', '--sensors-file', file]), 0)
    assert.equal(JSON.parse(out.text).sensors_count, 1)
    assert.equal((gateway.calls[0]?.[1] as { sensors: unknown[][] } | undefined)?.sensors[0]?.[0], 'T1')
    assert.equal(await cli('transmit --sensors-file nowhere.json'), 2)
    assert.match(err.text, /nowhere\.json cannot be read/)
  } finally {
    await gateway.stop()
  }
})

test('an owner of the lock that does not answer is LOCKED with its pid; one that is still starting is waited for', async () => {
  const { cli, cwd, err } = rig('{}')
  const lock = await acquireLock(join(cwd, 'data'), 'run')
  assert.equal(await cli('status'), 4)
  assert.match(err.text, new RegExp(`process ${process.pid} \\(os-node run\\) does not answer`))
  const waiting = cli('status --json', { waitMs: 60_000 })
  await new Promise(resolve => setTimeout(resolve, 150))
  lock.release()
  const gateway = await gatewayOn(cwd)
  assert.equal(await waiting, 0)
  await gateway.stop()
})

test('long work shows its progress on a terminal, locally and in a gateway, but never between rows on a terminal', async () => {
  const slowly = (context: CommandContext): CommandContext => ({
    ...context,
    log: {
      ...context.log,
      verify: async (selection, watch) => {
        watch.progress?.(1_000_000, 4_000_000)
        return context.log.verify(selection, watch)
      },
      async *export(from, watch) {
        watch.progress?.(1_000_000, 4_000_000)
        yield* context.log.export(from, watch)
      },
    },
  })
  const { cwd, out, err, cli } = rig('{}', slowly)
  assert.equal(await cli('log verify'), 0)
  assert.equal(err.text, '', 'no terminal')
  err.isTTY = true
  assert.equal(await cli('log verify'), 0)
  assert.match(err.text, /^\r\[#+\.+\] {2}25 % {2}976\.6 KiB\/3\.81 MiB .*\r\x1b\[K$/)
  assert.equal(await cli('log export'), 0)
  assert.match(err.text, / 25 % /)
  out.isTTY = true
  assert.equal(await cli('log export'), 0)
  assert.equal(err.text, '')
  const gateway = await gatewayOn(cwd, slowly)
  assert.equal(await cli('log verify'), 0)
  assert.match(err.text, / 25 % /)
  assert.match(out.text, /sound/)
  await gateway.stop()
})
