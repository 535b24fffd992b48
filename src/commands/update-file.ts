// dist/os-node-update.js next to the program: code that a running gateway does not need. Loaded on use. Errors:
// `missing` if the file does not exist, and those of the code in it.
import { existsSync, realpathSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import type * as Backup from '../backup'
import { asOsError, OsError } from '../lib/errors'

/** The exports of src/update/index.ts. */
interface UpdateFile {
  showSlots(): object & { text: string }
  update(source: string, restart: boolean, print: (line: string) => void): Promise<object>
  showDisks(): object & { text: string }
  imageOf(board: string, folders: readonly string[]): string
  flash(options: Record<string, unknown> & { print(line: string): void }): Promise<object>
  readonly backup: typeof Backup
}

/** Throws `missing` if the file is not next to the program. */
export async function inUpdateFile<T>(
  missing: 'NO_SLOTS' | 'E_FLASH' | 'E_BACKUP',
  run: (file: UpdateFile) => T | Promise<T>,
): Promise<T> {
  const file = join(dirname(realpathSync(process.argv[1] ?? '.')), 'os-node-update.js')
  if (!existsSync(file))
    throw missing === 'NO_SLOTS'
      ? new OsError(missing, 'this system has no slots')
      : new OsError(missing, 'os-node-update.js is missing', { hint: 'install the package, which has it' })
  try {
    return await run(createRequire(file)(file) as UpdateFile)
  } catch (thrown) {
    // the other file has its own copy of the error class
    const { hint } = thrown as OsError
    const { code, message } = asOsError(thrown)
    throw new OsError(code, message, { cause: thrown, ...(hint && { hint }) })
  }
}
