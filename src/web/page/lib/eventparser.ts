// Parses server-sent events from the text of a stream. Comments and events that are not JSON are skipped. Written by
// hand, reasons in docs/dependencies.md.

export interface Event {
  readonly name: string
  readonly data: unknown
}

/** Text in any pieces → complete events. */
export class EventParser {
  #pending = ''

  push(text: string): Event[] {
    const blocks = (this.#pending + text).replaceAll('\r\n', '\n').split('\n\n')
    this.#pending = blocks.pop()!
    return blocks.flatMap(parseBlock)
  }
}

function parseBlock(block: string): Event[] {
  let name = 'message'
  const data: string[] = []
  for (const line of block.split('\n')) {
    const [field, ...parts] = line.split(':')
    const value = parts.join(':').replace(/^ /, '')
    if (field === 'event') name = value
    if (field === 'data') data.push(value)
  }
  if (data.length === 0) return []
  try {
    return [{ name, data: JSON.parse(data.join('\n')) }]
  } catch {
    return []
  }
}
