// The self-test that is built into the program: vectors, checksums, units, log, SQL. It writes into a temporary folder only,
// opens no socket and needs no configuration, so that it may run beside a gateway at work.
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

/** Throws TIMEOUT when the signal ends it. */
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
