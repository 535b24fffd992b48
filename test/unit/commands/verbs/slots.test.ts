// update and slots on a machine without the SD image: each says so, and what to do.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { copyFileSync, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { removeDir, root } from '../../../lib/gateway'

const dir = mkdtempSync(join(tmpdir(), 'os-node-no-slots-'))
after(() => removeDir(dir))

function cli(script: string, ...line: string[]): { status: number | null; answer: Record<string, unknown> } {
  const { status, stdout } = spawnSync(process.execPath, [script, ...line, '--json', '--data-dir', dir], {
    cwd: dir,
    encoding: 'utf8',
  })
  return { status, answer: JSON.parse(stdout.trim().split('\n').at(-1)!) as Record<string, unknown> }
}

test('slots and update are refused on a machine without the SD image, with or without an update file', () => {
  const lone = join(dir, 'os-node.js')
  copyFileSync(join(root, 'dist/os-node.js'), lone)
  for (const script of [join(root, 'dist/os-node.js'), lone])
    for (const line of [
      ['slots'],
      ['update', 'https://example.org/x.update'],
      ['update', 'x.update', '--no-restart'],
    ]) {
      const { status, answer } = cli(script, ...line)
      assert.equal(status, 1, `${script} ${line.join(' ')}`)
      assert.equal(answer.code, 'NO_SLOTS')
      assert.equal(answer.hint, 'only a board with the SD image updates itself; elsewhere install the package')
    }
})
