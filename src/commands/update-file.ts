// dist/os-node-update.js beside the program: what a gateway at work does not need. It is loaded on use.
// Errors: the one that is named where the file is missing, and those of what runs in it.
import { existsSync, realpathSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import type * as Backup from '../backup'
import { asOsError, OsError } from '../lib/errors'

/** What src/update/index.ts exports. */
interface UpdateFile {
  showSlots(): object & { text: string }
  update(source: string, restart: boolean, print: (line: string) => void): Promise<object>
  showDisks(): object & { text: string }
  imageOf(board: string, folders: readonly string[]): string
  flash(options: Record<string, unknown> & { print(line: string): void }): Promise<object>
  readonly backup: typeof Backup
}

/** Throws `missing` where the file is not beside the program. */
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
    // its errors are of a class of their own
    const { hint } = thrown as OsError
    const { code, message } = asOsError(thrown)
    throw new OsError(code, message, { cause: thrown, ...(hint && { hint }) })
  }
}
