// update and slots: the two systems of the SD image. os-node-update.js next to the program does the work, since only
// the image needs it; it writes to the card, so it runs as root and never inside the gateway. Errors: NO_SLOTS (no SD
// image), and those of src/update.
import { inUpdateFile } from '../update-file'
import type { Verb } from '../verb'

export const update: Verb<object> = {
  name: 'update',
  summary: 'install a new version on the SD image',
  description:
    'Only what changed is transferred. The board restarts and tries the new version, and returns to the old one if the gateway does not work.',
  examples: [
    'os-node update os-node-rpi-4-0.2.0.update',
    'os-node update https://example.org/os-node-rpi-4-0.2.0.update',
  ],
  options: {
    source: { type: 'string', value: 'FILE|URL', required: true, help: 'the update' },
    'no-restart': {
      type: 'boolean',
      help: 'do not restart: the next restart tries it, a power cycle may not',
    },
  },
  operands: ['source'],
  where: 'local',
  async run(context, options) {
    const value = await inUpdateFile('NO_SLOTS', file =>
      file.update(String(options.source), !options['no-restart'], line => context.print({ text: line }, line)),
    )
    return { value, text: '' }
  },
}

export const slots: Verb = {
  name: 'slots',
  summary: 'show the versions of the SD image and the last update',
  examples: ['os-node slots', 'os-node slots --json'],
  where: 'local',
  async run() {
    const { text, ...value } = await inUpdateFile('NO_SLOTS', file => file.showSlots())
    return { value, text }
  },
}
