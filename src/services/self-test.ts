// Loads the self-test: dist/os-node-selftest.js, in the folder of the bundle, loaded only when a suite runs. The file
// contains the suites and their data, and uses the already loaded exports of test-plugin/program.ts of this process.
//
// Errors: E_SELFTEST_MISSING (the bundle is used without that file), E_SELFTEST_VERSION (the file belongs to another os-node
// version).
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { OsError } from '../lib/errors'
import { alsoMaps } from '../lib/stacks'
import type * as SelfTest from './test-plugin'
import type * as Program from './test-plugin/program'

/** The build output of test-plugin/index.ts (selfTestFile in src/build/self-test.mjs). */
interface SelfTestFile {
  readonly version: string
  load(program: typeof Program): typeof SelfTest
}

let loaded: typeof SelfTest | undefined

/** The self-test of the program `script`. Throws E_SELFTEST_MISSING, E_SELFTEST_VERSION. */
export async function selfTest(script: string): Promise<typeof SelfTest> {
  // false in the tests and tools of the build, which use the sources
  if (!__SELF_TEST_FILE__) return import('./test-plugin')
  return (loaded ??= openSelfTest(script, __VERSION__).load(await import('./test-plugin/program')))
}

/** The file next to `script`, of this version. Throws E_SELFTEST_MISSING, E_SELFTEST_VERSION. */
export function openSelfTest(script: string, version: string): SelfTestFile {
  const path = join(dirname(script), 'os-node-selftest.js')
  if (!existsSync(path)) throw new OsError('E_SELFTEST_MISSING', `the self-test needs ${path}, which does not exist`)
  const file = createRequire(script)(path) as SelfTestFile
  if (file.version !== version)
    throw new OsError(
      'E_SELFTEST_VERSION',
      `${path} is of os-node ${file.version ?? 'without a version'}, this is os-node ${version}`,
    )
  alsoMaps(path)
  return file
}
