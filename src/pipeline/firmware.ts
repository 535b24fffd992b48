// FULL bodies as the C firmware writes them (docs/protocol.md "Bodies from C firmware"), turned into ordinary texts, so that all
// that follows knows one form. None of them starts with `<aid>;`:
//
//   sensor_id|unit|b62value                             one sensor, no head; the AID names the device
//   <id>.<state>.<decimal seconds>|id>state.unit:value|…  several; a value may be followed by `#`, `!` or `@` and a text
//
// (A third form has an ordinary head with a time token of seconds, and needs nothing but the frame's own time.)
// What the firmware's template table does not hold, its DIFF and HEART do not speak of: such sensors are known from the FULL
// alone, never repeated. Nothing here fails: a text of another form is null.
import { msToken } from './text'

/** a frame's TS below this is in seconds (C firmware) */
export const SECONDS = 1e11

interface FirmwareBody {
  /** the body as an ordinary text, at the frame's time */
  readonly text: string
  /** the text a DIFF or HEART after it builds on; null when it leaves the template of its TID as it was */
  readonly template: string | null
}

/** sensors of one template */
const MOST_SENSORS = 4
/** bytes of a sensor id, and of a slot, that the table still holds */
const ID_BYTES = 11
const SLOT_BYTES = 15

const SINGLE = /^([^|>.;]+)\|([^|]*)\|(-?[0-9a-zA-Z]+)\|?$/
const HEAD = /^([^.|;]*\.[^.|;]*\.)\d+\|/
/** a value, and what is written behind it */
const EXTENDED = /^([^:]*:[^:#!@]*)[#!@](.*)$/s

/** Whether the body of a FULL is of C firmware, whose units are plain UCUM: no `<aid>;`, and a frame time (`ts`) in seconds. */
export const isFirmware = (body: string, ts: number): boolean => ts < SECONDS && !/^\d+;/.test(body)

/** `ms`: the frame's time. */
export function readFirmware(body: string, aid: number, ms: number): FirmwareBody | null {
  const single = body.includes('>') ? null : SINGLE.exec(body)
  // such a body goes through no template: it is always FULL
  if (single) return { text: `${aid}.1.${msToken(ms)}|${single[1]}>K.${single[2]}:${single[3]}|`, template: null }
  const head = HEAD.exec(body)
  if (!head) return null
  const start = `${head[1]}${msToken(ms)}|`
  let text = start
  let template = start
  let kept = 0
  let unsure = false
  for (const segment of body.slice(head[0].length).split('|')) {
    if (segment === '') continue
    const extended = EXTENDED.exec(segment)
    const plain = `${extended ? extended[1] : segment}|`
    text += plain
    // its slots are cut at the last colon, so with one in the text behind they are none of ours: learned without sensors,
    // so that nothing is built on it
    if (extended && extended[2]!.includes(':')) unsure = true
    if (kept >= MOST_SENSORS || !holds(segment)) continue
    template += plain
    kept++
  }
  return { text, template: kept === 0 ? null : unsure ? start : template }
}

/** Whether a segment has a place in the firmware's table: a sensor none of whose texts is empty or too long. */
function holds(segment: string): boolean {
  const gt = segment.indexOf('>')
  const colon = segment.lastIndexOf(':')
  const fits = (text: string, most: number): boolean => text !== '' && Buffer.byteLength(text, 'utf8') <= most
  return (
    gt > 0 &&
    colon > gt &&
    fits(segment.slice(0, gt), ID_BYTES) &&
    fits(segment.slice(gt + 1, colon), SLOT_BYTES) &&
    fits(segment.slice(colon + 1), SLOT_BYTES)
  )
}
