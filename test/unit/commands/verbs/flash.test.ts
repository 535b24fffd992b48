// flash as a command: its list of disks, its options, and its errors when something is missing. Nothing here writes a
// disk.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { copyFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { root, tempDir } from '../../../lib/gateway'

const dir = tempDir()

function cli(script: string, ...line: string[]): { status: number | null; answer: Record<string, unknown> } {
  const { status, stdout } = spawnSync(process.execPath, [script, 'flash', ...line, '--json', '--data-dir', dir], {
    cwd: dir,
    encoding: 'utf8',
    input: '',
  })
  return { status, answer: JSON.parse(stdout.trim().split('\n').at(-1)!) as Record<string, unknown> }
}
const program = join(root, 'dist/os-node.js')

test('flash without a device lists disks', () => {
  const { status, answer } = cli(program)
  assert.equal(status, 0)
  assert.equal(answer.ok, true)
  assert.ok(Array.isArray(answer.disks))
})

test('missing arguments and missing files or devices are refused with what to do', () => {
  const image = join(dir, 'x.img')
  writeFileSync(image, 'no image')
  const cases: [string[], number, string, RegExp][] = [
    [['/dev/null'], 2, 'USAGE', /--image FILE or --board NAME/],
    [['/dev/null', '--image', image, '--board', 'rpi-4'], 2, 'USAGE', /--image FILE or --board NAME/],
    [['/dev/null', '--board', 'rpi-4'], 1, 'E_FLASH', /no image for rpi-4/],
    [['/dev/null', '--image', join(dir, 'none.img')], 1, 'E_FLASH', /there is no file/],
    [['/dev/null', '--image', image], 1, 'E_FLASH', /\/dev\/null is not a disk/],
    [['/dev/null', '--image', image, '--key', join(dir, 'none')], 2, 'BAD_ARGUMENT', /--key/],
    [['/dev/null', '--image', image, '--wifi', 'Home:short'], 2, 'BAD_ARGUMENT', /wifi_password/],
    [['/dev/null', '--image', image, '--wifi', 'Home'], 2, 'USAGE', /password of Home/],
  ]
  for (const [line, status, code, message] of cases) {
    const got = cli(program, ...line)
    assert.deepEqual([got.status, got.answer.code], [status, code], line.join(' '))
    assert.match(String(got.answer.error), message)
    assert.match(String(got.answer.hint), /\w/)
  }
})

test('the program reports a missing companion file', () => {
  const lone = join(dir, 'os-node.js')
  copyFileSync(program, lone)
  const { status, answer } = cli(lone)
  assert.equal(status, 1)
  assert.deepEqual([answer.code, answer.error], ['E_FLASH', 'os-node-update.js is missing'])
})
