// A folder of its own for each configuration of a test, and what a refused call throws.
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import { ConfigStore } from '../../../src/config'
import { OsError } from '../../../src/lib/errors'
import { createLogger } from '../../../src/lib/logger'

export const root = mkdtempSync(join(tmpdir(), 'os-node-config-'))
after(() => rmSync(root, { recursive: true, force: true }))
let count = 0

export function place(text?: string): {
  cwd: string
  file: string
  load(extra?: object): ConfigStore
  lines: string[]
} {
  const cwd = join(root, String(count++))
  mkdirSync(cwd)
  const file = join(cwd, 'Config.json')
  if (text !== undefined) writeFileSync(file, text)
  const lines: string[] = []
  const logger = createLogger({ write: line => lines.push(line) })
  return { cwd, file, lines, load: extra => ConfigStore.load({ env: {}, cwd, logger, ...extra }) }
}

export const fails = (run: () => unknown, code: string, text: RegExp): OsError => {
  let caught: unknown
  try {
    run()
  } catch (error) {
    caught = error
  }
  assert.ok(caught instanceof OsError, `expected ${code}`)
  assert.equal(caught.code, code)
  assert.match(caught.message, text)
  return caught
}
