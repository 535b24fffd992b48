// The output of perf and strace, as `npm run bench` reads it.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { pathToFileURL } from 'node:url'

const load = (): Promise<{
  instructionsOf(text: string): number | null
  systemCallsOf(text: string): number | null
}> => import(pathToFileURL('bench/counted.mjs').href)

test('instructions: the count of perf, for both kinds of cores; null where the processor has no counter', async () => {
  const { instructionsOf } = await load()
  assert.equal(instructionsOf('16934571004,,instructions:u,1795310712,100.00,1.95,insn per cycle\n'), 16_934_571_004)
  assert.equal(
    instructionsOf(
      [
        '# started on Thu Nov 26 14:00:00 2026',
        '',
        '5.22,msec,task-clock:u,5217346,100.00,0.413,CPUs utilized',
        '900,,cpu_core/instructions:u/,249770,63.00,,',
        '100,,cpu_atom/instructions:u/,249770,37.00,,',
      ].join('\n'),
    ),
    1000,
  )
  assert.equal(instructionsOf('<not supported>,,instructions:u,0,100.00,,\n'), null)
  assert.equal(
    instructionsOf('<not counted>,,instructions:u,0,0.00,,\n45,,page-faults:u,5217346,100.00,8.6,K/sec\n'),
    null,
  )
  assert.equal(instructionsOf('Error: Access to performance monitoring is limited.\n'), null)
})

test('system calls: the total of strace, with and without errors; null for anything else', async () => {
  const { systemCallsOf } = await load()
  const table = (total: string): string => `% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 93.30    1.149635        5635       204        18 futex
  4.20    0.051737          15      3330           epoll_pwait
------ ----------- ----------- --------- --------- ----------------
${total}
`
  assert.equal(systemCallsOf(table('100.00    1.232237         236      5219        18 total')), 5219)
  assert.equal(systemCallsOf(table('100.00    0.119387          40      2954           total')), 2954)
  assert.equal(systemCallsOf(table('')), null)
  assert.equal(systemCallsOf(''), null)
})
