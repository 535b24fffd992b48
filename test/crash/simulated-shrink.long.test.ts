// A seed that fails prints the command that runs it again, and one with fewer faults that still fails, also where the seed ends its process.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'
import { shrunk } from '../lib/simulated'

const root = process.env.OS_NODE_TEST_ROOT ?? process.cwd()

/** `npm run test:sim -- ARGS` */
const sim = (args: string): { status: number | null; stdout: string } =>
  spawnSync(process.execPath, [join(root, 'test/sim/run.mjs'), ...args.split(' ')], { encoding: 'utf8', cwd: root })

test('a failing seed prints a command, and a shorter one, and both fail', () => {
  const { status, stdout } = sim('--variant sync-left-out --seeds 3 --mode strict --media UDP')
  assert.equal(status, 1, stdout)
  const [, seed, command] = /^seed (\d+) BROKEN: .*\n {2}npm run test:sim -- (.*)$/m.exec(stdout) ?? []
  const [, same, kept, all, shorter] =
    /^seed (\d+) shrunk to (\d+) of (\d+) faults: npm run test:sim -- (.*)$/m.exec(stdout) ?? []
  assert.ok(command && shorter, stdout)
  assert.equal(same, seed)
  assert.ok(Number(kept) < Number(all), stdout)
  assert.equal(/ --keep (\S+)$/.exec(shorter)?.[1]?.split(',').length, Number(kept), stdout)
  for (const args of [`${command} --keep ${Array.from({ length: Number(all) }, (_, k) => k).join()}`, shorter]) {
    const again = sim(args)
    assert.equal(again.status, 1, again.stdout)
    assert.match(again.stdout, new RegExp(`^seed ${seed} BROKEN hash`, 'm'))
  }
})

test('a seed that ends its process is shrunk', async () => {
  // a function made by a constructor has the globals of the worker, not those of the simulated process
  const end = '(() => 0).constructor("process.exit(7)")()'
  const clean = 'found.cleanStop ? newest.last + 1 : newest.base + RESERVE'
  const small = await shrunk(2, { hours: 0.1, mode: 'strict', media: ['UDP'] }, [
    ['src/log/recovery.ts', clean, `found.cleanStop ? newest.last + 1 : ${end}`],
  ])
  assert.match(small?.failure ?? '', /^its process ended with 7$/)
  assert.equal(small?.keep.length, 1, JSON.stringify(small))
  assert.equal(small?.of, '6 faults')
})
