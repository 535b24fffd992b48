// Which lines hold-lines gets, and what its answers mean; the program itself is in test/rig/gpio-outputs.test.ts.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LineHolder } from '../../../../drivers/gpio/line-holder'
import type { Files } from '../../../../src/lib/files'
import type { Descriptor, HelperAddon } from '../../../../src/native/addon'
import type { GpioLines } from '../../../../src/native/gpio'
import { ManualClock, ManualTimers } from '../../../lib/manual'

const ENOENT = -2
const EMFILE = -24
const PARAMETER = '/sys/module/pinctrl_bcm2835/parameters/persist_gpio_outputs'

/** A holder on a machine with these files and a helper that answers `answer`. */
function world({
  files = { '/run/os-node-lines': '' } as Record<string, string>,
  answer = 0,
  label = 'gpio-sim',
} = {}) {
  const calls: string[] = []
  const addon = {
    connectUnixPackets: path => {
      calls.push(`connect ${path}`)
      return 'connection' as unknown as Descriptor
    },
    sendOne: (_, packet) => calls.push(`send ${Buffer.from(packet)}`),
    watch: (_, _events, wake) => {
      queueMicrotask(() => wake!(1))
      return 0
    },
    takeDescriptor: () => answer,
    close: () => calls.push('close') * 0,
  } as Partial<HelperAddon> as HelperAddon
  const machine = {
    exists: (path: string) => path in files,
    read: (path: string) => Buffer.from(files[path]!),
  } as Partial<Files> as Files
  const lines = { pass: (_, byte) => calls.push(`pass ${byte}`) } as Partial<GpioLines> as GpioLines
  const holder = new LineHolder(
    machine,
    new ManualTimers(new ManualClock()),
    () => addon,
    () => label,
  )
  return { calls, holder, keep: () => holder.keep('/dev/gpiochip0', lines) }
}

test('a line is passed where a helper listens and the kernel would let go of it', async () => {
  const helper = { '/run/os-node-lines': '' }
  const passed = ['connect /run/os-node-lines', 'pass 107', 'close']
  for (const [files, label, calls] of [
    [helper, 'gpio-sim', passed],
    [{}, 'gpio-sim', []],
    [helper, 'pinctrl-bcm2711', passed],
    [{ ...helper, [PARAMETER]: 'N\n' }, 'pinctrl-bcm2711', passed],
    [{ ...helper, [PARAMETER]: 'Y\n' }, 'pinctrl-bcm2711', []],
    [{ ...helper, [PARAMETER]: 'Y\n' }, 'gpio-sim', passed],
  ] as const) {
    const { keep, calls: made } = world({ files, label })
    await keep()
    assert.deepEqual(made, calls, `${Object.keys(files)} ${label}`)
  }
})

test('a helper that cannot hold one more line is LINK_DOWN with the reason of the system', async () => {
  const { keep, calls } = world({ answer: EMFILE })
  await assert.rejects(keep(), { code: 'LINK_DOWN', message: 'hold-lines: keep EMFILE' })
  assert.equal(calls.at(-1), 'close')
})

test('whether it holds lines is queried, and their release requested, only where it listens', async () => {
  const none = world({ answer: ENOENT })
  assert.equal(await none.holder.holds(), false)
  await none.holder.free()
  assert.deepEqual(
    none.calls.filter(call => call.startsWith('send')),
    ['send ?', 'send f'],
  )
  assert.equal(await world().holder.holds(), true)
  const away = world({ files: {} })
  assert.equal(await away.holder.holds(), false)
  await away.holder.free()
  assert.deepEqual(away.calls, [])
})
