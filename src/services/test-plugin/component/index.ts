// The built-in self-test: vectors, checksums, units, log, SQL. It only writes into a temporary folder, opens no socket and
// needs no configuration, so that it can run in parallel with a gateway.
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Outcome, outcome, type RunOptions, runChecks } from '../checks'
import type { Lib } from '../vectors/common'
import { crcChecks } from './crc'
import { logChecks } from './log'
import { sqlChecks } from './sql'
import { unitChecks } from './units'
import { vectorChecks } from './vectors'

/** Throws TIMEOUT if the signal is aborted. */
export async function runComponent(lib: Lib, options: RunOptions = {}): Promise<Outcome> {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-self-test-'))
  const folder = (name: string): string => {
    const path = join(dir, name)
    mkdirSync(path)
    return path
  }
  try {
    return outcome([
      await runChecks('vectors', vectorChecks(lib), options),
      await runChecks('crc', crcChecks, options),
      await runChecks('units', unitChecks, options),
      await runChecks('log', logChecks(folder), options),
      await runChecks('sql', sqlChecks(folder), options),
    ])
  } finally {
    rmSync(dir, { recursive: true, force: true })
  }
}
