// The user channel as another process opens it: the request, the answer, and that the connection is closed in every case.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HciSocket } from '../../../../drivers/bluetooth/hci-socket'
import { adapterTrouble, HELPER } from '../../../../drivers/bluetooth/machine'
import { openUserChannel } from '../../../../drivers/bluetooth/user-channel'
import type { Files } from '../../../../src/lib/files'
import type { Descriptor, HciAddon } from '../../../../src/native/addon'
import { ManualClock, ManualTimers } from '../../../lib/manual'

const EACCES = -13
const EBUSY = -16

/** Files with this content. */
const filesOf = (content: Record<string, string>): Files =>
  ({
    list: (folder: string) => {
      const below = Object.keys(content).filter(path => path.startsWith(`${folder}/`))
      return [...new Set(below.map(path => path.slice(folder.length + 1).split('/')[0]!))]
    },
    read: (path: string) => Buffer.from(content[path] ?? ''),
  }) as Partial<Files> as Files
const SOCKETS = `sk               RefCnt Rmem   Wmem   User   Inode  Parent
000000009f1c2d3e 2      0      0      0      4711   0     
00000000aa1c2d3e 2      0      0      1000   4712   0     
`

/** The addon with a helper that answers `answer`, immediately or never. */
function world({
  connection = 'connection' as string | number,
  answer = 'channel' as string | number,
  wakes = true,
  proc = {} as Record<string, string>,
} = {}) {
  const calls: string[] = []
  const made = (what: string | number) => what as unknown as Descriptor
  const addon = {
    connectUnixPackets: path => {
      calls.push(`connect ${path}`)
      return made(connection)
    },
    sendOne: (_, packet) => calls.push(`send ${Buffer.from(packet)}`),
    watch: (_, _events, wake) => {
      if (wakes) setImmediate(() => wake!(1))
      return 0
    },
    takeDescriptor: () => made(answer),
    openHci: device => made(`opened ${device}`),
    close: descriptor => calls.push(`close ${descriptor}`) * 0,
  } as Partial<HciAddon> as HciAddon
  const timers = new ManualTimers(new ManualClock())
  return { calls, timers, addon, channel: openUserChannel(3, timers, addon, filesOf(proc)) }
}

test('the helper gets a request for the adapter, its channel is used, and the connection is closed', async () => {
  const { calls, channel } = world()
  assert.equal(await channel, 'channel')
  assert.deepEqual(calls, [`connect ${HELPER}`, 'send 3', 'close connection'])
})

test('an adapter in use is LINK_DOWN and names the program that uses it, or its user; else the reason of the system', async () => {
  const { calls, channel } = world({ answer: EBUSY })
  await assert.rejects(channel, { code: 'LINK_DOWN', message: 'hci-open could not open hci3: bind EBUSY' })
  assert.equal(calls.at(-1), 'close connection')
  const seen = {
    '/proc/net/hci': SOCKETS,
    '/proc/412/comm': 'bluetoothd\n',
    '/proc/412/fdinfo/7': 'pos:\t0\nflags:\t02\nmnt_id:\t8\nino:\t4711\n',
    '/proc/500/comm': 'other\n',
    '/proc/500/fdinfo/0': 'pos:\t0\nino:\t99\n',
  }
  const message = 'hci-open could not open hci3: it is in use by bluetoothd (412), a program of user 1000'
  await assert.rejects(world({ answer: EBUSY, proc: seen }).channel, { code: 'LINK_DOWN', message })
  const hidden = world({ answer: EBUSY, proc: { '/proc/net/hci': SOCKETS.split('\n').slice(0, 2).join('\n') } })
  await assert.rejects(hidden.channel, { message: 'hci-open could not open hci3: it is in use by a program of user 0' })
})

test('without a helper it is NO_ACCESS with what to do; a helper that never answers is TIMEOUT', async () => {
  const none = world({ connection: EACCES })
  await assert.rejects(none.channel, (error: Error & { code: string; hint: string }) => {
    assert.deepEqual([error.code, error.message], ['NO_ACCESS', `${HELPER}: connect EACCES`])
    return /systemctl start os-node-hci\.socket/.test(error.hint)
  })
  const silent = world({ wakes: false })
  const late = assert.rejects(silent.channel, { code: 'TIMEOUT' })
  await silent.timers.advance(5000)
  await late
  assert.equal(silent.calls.at(-1), 'close connection')
})

test('a socket that was passed a channel uses it, once', () => {
  const { calls, addon } = world()
  const socket = new HciSocket(addon, 'channel' as unknown as Descriptor)
  socket.bindUser(3)
  socket.stop()
  assert.equal(calls.at(-1), 'close channel')
  socket.bindUser(3)
  socket.stop()
  assert.equal(calls.at(-1), 'close opened 3')
})

test('missing permission for an adapter is a fault only where no helper listens', () => {
  const files = (helper: boolean): Files =>
    ({
      list: () => ['hci0'],
      exists: (path: string) => helper && path === HELPER,
      read: (path: string) => Buffer.from(path === '/proc/self/status' ? 'CapEff:\t0000000000000000\n' : ''),
    }) as Partial<Files> as Files
  assert.equal(adapterTrouble(files(true), 'hci0'), null)
  assert.match(adapterTrouble(files(false), 'hci0')?.message ?? '', /no right to use hci0/)
})
