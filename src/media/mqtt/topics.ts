// Topics from templates (decision 0021): `<aid>` and `<install>` replace complete levels. A sender fills in its own values; a
// receiver subscribes to all of them and derives from a packet's topic the sender and the topic for answers.

/** `os/sensors/raw` and `os/sensors/#`: topics of the reference for publishing and subscribing */
export const COMPAT_UP = 'os/sensors/raw'
export const COMPAT_FILTER = 'os/sensors/#'

export interface Party {
  /** the id of a node, or `new-<install>` while it has none */
  readonly aid?: string
  readonly install?: string
}

const PLACE = /^<(aid|install)>$/

const partOf = (level: string): keyof Party | null => (PLACE.exec(level)?.[1] as keyof Party | undefined) ?? null

/** The levels of a template, or null if it is invalid. */
export function levelsOf(template: string): string[] | null {
  if (template === '' || /[+#\0]/.test(template) || template.startsWith('$')) return null
  const levels = template.split('/')
  return levels.every(level => partOf(level) !== null || !/[<>]/.test(level)) ? levels : null
}

/** The topic of one party; null if a value of the template is unknown. */
export function topicOf(template: string, party: Party): string | null {
  const levels = template.split('/').map(level => {
    const part = partOf(level)
    return part ? party[part] : level
  })
  return levels.includes(undefined) ? null : levels.join('/')
}

/** The subscription that matches every party. */
export const filterOf = (template: string): string =>
  template
    .split('/')
    .map(level => (partOf(level) ? '+' : level))
    .join('/')

/** The party of a topic; null if it does not match the template. */
export function partyOf(template: string, topic: string): Party | null {
  const wanted = template.split('/')
  const levels = topic.split('/')
  if (levels.length !== wanted.length) return null
  const party: { aid?: string; install?: string } = {}
  for (let k = 0; k < levels.length; k++) {
    const part = partOf(wanted[k]!)
    if (part) party[part] = levels[k]!
    else if (levels[k] !== wanted[k]) return null
  }
  return party
}

/** The part of a topic that identifies the sender: up to the last level that the template fills in, or all of it. */
export function senderOf(template: string, topic: string): string {
  const last = template.split('/').findLastIndex(level => partOf(level) !== null)
  return last < 0
    ? topic
    : topic
        .split('/')
        .slice(0, last + 1)
        .join('/')
}
