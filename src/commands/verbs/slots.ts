// update and slots: the two systems of the SD image. The work is done by os-node-update.js beside the program, which only the image needs;
// it writes to the card, so it runs as root and never inside the gateway.
// Errors: NO_SLOTS (no SD image), and those of src/update.
import { existsSync, realpathSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { asOsError, OsError } from '../../lib/errors'
import type { OptionValues, Verb } from '../verb'

/** What src/update/index.ts exports. */
interface UpdateFile {
  showSlots(): object & { text: string }
  update(source: string, restart: boolean, print: (line: string) => void): Promise<object>
  showDisks(): object & { text: string }
  imageOf(board: string, folders: readonly string[]): string
  flash(options: Record<string, unknown> & { print(line: string): void }): Promise<object>
}

/** Throws `missing` where the file is not beside the program. */
export async function inUpdateFile<T>(
  missing: 'NO_SLOTS' | 'E_FLASH',
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

export const update: Verb = {
  name: 'update',
  summary: 'install a new version on the SD image',
  description:
    'Only what changed is transferred. The board starts again and tries the new version; it goes back to the old one unless the gateway works.',
  examples: [
    'os-node update os-node-rpi-4-0.2.0.update',
    'os-node update https://example.org/os-node-rpi-4-0.2.0.update',
    'os-node update /tmp/os-node-rpi-4-0.2.0.update --no-restart',
  ],
  options: {
    source: { type: 'string', value: 'FILE|URL', required: true, help: 'the update' },
    'no-restart': { type: 'boolean', help: 'the next start tries it' },
  },
  operands: ['source'],
  where: 'local',
  async run(context, options: OptionValues) {
    const value = await inUpdateFile('NO_SLOTS', file =>
      file.update(String(options.source), !options['no-restart'], line => context.print({ text: line }, line)),
    )
    return { value: value as Record<string, unknown>, text: '' }
  },
}

export const slots: Verb = {
  name: 'slots',
  summary: 'versions of the SD image, and the last update',
  examples: ['os-node slots', 'os-node slots --json'],
  options: {},
  where: 'local',
  async run() {
    const { text, ...value } = await inUpdateFile('NO_SLOTS', file => file.showSlots())
    return { value, text }
  },
}
