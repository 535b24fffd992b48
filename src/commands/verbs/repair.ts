// repair-config: makes a broken Config.json usable again. It works although every other command ends with the error of
// the file.
import type { Repaired } from '../../config'
import type { Verb } from '../verb'

function shown(value: unknown): string {
  const text = value === null ? 'nothing' : JSON.stringify(value)
  return text.length > 100 ? `${text.slice(0, 100)}…` : text
}

/** For people, an empty key needs a name. */
const named = (key: string): string => (key === '' ? 'the whole file' : key === '?' ? 'text outside any key' : key)

export const repairConfig: Verb<{ ok: true; repaired: readonly Repaired[]; backup?: string }> = {
  name: 'repair-config',
  summary: 'repair a broken configuration file',
  description:
    'Valid keys stay, invalid ones get their default, invalid elements of lists are removed. The old file is kept as .bak.',
  examples: [
    'os-node repair-config',
    'os-node repair-config --unknown',
    'os-node repair-config --config /data/Config.json --json',
  ],
  options: { unknown: { type: 'boolean', help: 'also remove unknown keys' } },
  where: 'either',
  changes: true,
  tolerant: true,
  async run({ config, logger }, options) {
    const unknown = options.unknown === true
    const first = config.repair(unknown)
    const paths = unknown ? (await config.unknown()).map(({ path }) => path) : []
    const more = config.repair(unknown, paths, first.backup)
    const repaired = [...first.repaired, ...more.repaired]
    const backup = first.backup ?? more.backup
    if (backup) logger.info(`${config.path} was repaired; the old file is ${backup}`)
    for (const { key, old, new: now } of repaired) logger.info(`${named(key)}: ${shown(old)} → ${shown(now)}`)
    return { value: { ok: true, repaired, ...(backup !== undefined && { backup }) } }
  },
  text: ({ repaired, backup }) =>
    repaired.length === 0
      ? 'nothing had to be repaired'
      : `mended: ${repaired.map(({ key }) => named(key)).join(', ')}${backup === undefined ? '' : `; the broken file is ${backup}`}`,
}
