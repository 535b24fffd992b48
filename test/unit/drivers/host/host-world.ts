// A folder with the files of a kernel, and a source that reads it.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { TestContext } from 'node:test'
import type { HostEnvironment } from '../../../../drivers/host/environment'
import { createHostSource, type HostType } from '../../../../drivers/host/index'
import { silentLogger } from '../../../../src/lib/logger'
import type { OpenableEvents, Source } from '../../../../src/links/contracts'
import { ManualClock } from '../../../lib/manual'

export const events: OpenableEvents = { lost: () => undefined, degraded: () => undefined }

/** A folder with prepared files; `put` adds or replaces, `take` removes. */
export function tree(t: TestContext, files: Record<string, string> = {}) {
  const root = mkdtempSync(join(tmpdir(), 'host-'))
  t.after(() => rmSync(root, { recursive: true, force: true }))
  const put = (path: string, text: string): void => {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), text)
  }
  for (const [path, text] of Object.entries(files)) put(path, text)
  return { root, put, take: (path: string) => rmSync(join(root, path), { recursive: true, force: true }) }
}

export function source(
  type: HostType,
  root: string,
  options: object = {},
  env: Partial<HostEnvironment> = {},
): { source: Source; clock: ManualClock } {
  const clock = new ManualClock()
  const made = createHostSource(
    type,
    type,
    { sys_root: join(root, 'sys'), proc_root: join(root, 'proc'), ...options },
    { clock, logger: silentLogger },
    { sleep: async () => undefined, ...env },
  )
  return { source: made, clock }
}

export const hwmon = 'sys/class/hwmon'

export const CHIPS: Record<string, string> = {
  [`${hwmon}/hwmon0/name`]: 'coretemp\n',
  [`${hwmon}/hwmon0/temp1_input`]: '45000\n',
  [`${hwmon}/hwmon0/temp1_label`]: 'Package id 0\n',
  [`${hwmon}/hwmon0/temp1_max`]: '100000\n',
  [`${hwmon}/hwmon0/temp10_input`]: '43500\n',
  [`${hwmon}/hwmon0/temp2_input`]: '-250\n',
  [`${hwmon}/hwmon1/name`]: 'nct6775\n',
  [`${hwmon}/hwmon1/in0_input`]: '1064\n',
  [`${hwmon}/hwmon1/fan1_input`]: '1203\n',
  [`${hwmon}/hwmon1/curr1_input`]: '1500\n',
  [`${hwmon}/hwmon1/power1_average`]: '12500000\n',
  [`${hwmon}/hwmon1/temp1_input`]: '31000\n',
  [`${hwmon}/hwmon1/temp1_fault`]: '1\n',
  [`${hwmon}/hwmon1/temp2_input`]: '1\n',
  [`${hwmon}/hwmon1/temp2_enable`]: '0\n',
}
