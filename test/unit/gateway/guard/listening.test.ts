// The firewall of the SD image learns of each change of the sockets that take what comes in, and of nothing else.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { test } from 'node:test'
import { listenWatch } from '../../../../src/gateway/guard/listening'
import { realFiles } from '../../../../src/lib/files'
import { silentLogger } from '../../../../src/lib/logger'

const HEAD = '  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n'
const row = (state: string, uid: number, inode: number): string =>
  `   0: 00000000:1F90 00000000:0000 ${state} 00000000:00000000 00:00000000 00000000 ${uid}        0 ${inode} 2 0 0\n`

/** A machine with these tables; `reported`: how often the file was written; `full`: it cannot be. */
function machine() {
  const tables: Record<string, string> = { tcp: HEAD, udp: HEAD }
  const state = { reported: 0, full: false, warned: [] as string[] }
  const files = {
    ...realFiles,
    read: (path: string) => {
      const table = tables[path.slice('/proc/self/net/'.length)]
      if (table === undefined) throw new Error(`ENOENT: ${path}`)
      return Buffer.from(table)
    },
    open: (path: string) => {
      assert.equal(path, '/run/changed')
      if (state.full) throw new Error('ENOSPC: no space left')
      return ++state.reported
    },
    close: () => undefined,
  }
  const logger = { ...silentLogger, warn: (text: string) => void state.warned.push(text) }
  return { tables, state, look: listenWatch('/run/changed', files, logger, 800) }
}

test('a socket that takes what comes in is reported once, others are not', () => {
  const { tables, state, look } = machine()
  look()
  assert.equal(state.reported, 0)
  const steps: [table: string, rows: string, reported: number][] = [
    ['tcp', row('0A', 800, 11), 1],
    ['tcp', row('0A', 800, 11) + row('01', 800, 12), 1],
    ['udp', row('07', 0, 13) + row('01', 800, 14), 1],
    ['udp', row('07', 800, 15), 2],
    ['tcp6', row('0A', 800, 16), 3],
    ['udp', row('07', 800, 17), 4],
    ['udp', '', 5],
  ]
  for (const [table, rows, reported] of steps) {
    tables[table] = HEAD + rows
    look()
    look()
    assert.equal(state.reported, reported, `${table}: ${rows}`)
  }
  assert.deepEqual(state.warned, [])
})

test('a file that cannot be written is named once, and written later', () => {
  const { tables, state, look } = machine()
  tables.udp = HEAD + row('07', 800, 15)
  state.full = true
  look()
  look()
  assert.deepEqual(state.warned, ['the firewall was not updated: ENOSPC: no space left'])
  state.full = false
  look()
  assert.equal(state.reported, 1)
})

test("the kernel's own tables are read", async t => {
  const server = createServer().listen(0, '127.0.0.1')
  t.after(() => server.close())
  await once(server, 'listening')
  let reported = 0
  const files = { ...realFiles, open: () => ++reported, close: () => undefined }
  listenWatch('/run/changed', files, silentLogger)()
  assert.equal(reported, 1, `port ${(server.address() as AddressInfo).port}`)
  listenWatch('/run/changed', files, silentLogger, 4_000_000)()
  assert.equal(reported, 1, 'a user without sockets')
})
