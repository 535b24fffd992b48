// Converts FULL bodies of the C firmware (docs/protocol.md "Bodies from C firmware") to ordinary texts, so that all later
// code handles only one form. None of them starts with `<aid>;`:
//
//   sensor_id|unit|b62value                             one sensor, no head; the AID names the device
//   <id>.<state>.<decimal seconds>|id>state.unit:value|…  several; a value may be followed by `#`, `!` or `@` and a text
//
// (A third form has an ordinary head with a time token in seconds, and needs only the frame's own time.)
// Sensors that do not fit into the firmware's template table are not in its DIFF and HEART: they are known from the FULL
// alone and never repeated. No errors: a text of another form is null.
import { msToken } from './text'

/** a frame's TS below this is in seconds (C firmware) */
export const SECONDS = 1e11

interface FirmwareBody {
  /** the body as an ordinary text, with the frame's time */
  readonly text: string
  /** the text that a later DIFF or HEART builds on; null if it leaves the template of its TID unchanged */
  readonly template: string | null
}

/** sensors of one template */
const MOST_SENSORS = 4
/** bytes of a sensor id, and of a slot, that fit into the table */
const ID_BYTES = 11
const SLOT_BYTES = 15

const SINGLE = /^([^|>.;]+)\|([^|]*)\|(-?[0-9a-zA-Z]+)\|?$/
const HEAD = /^([^.|;]*\.[^.|;]*\.)\d+\|/
/** a value, and the text after it */
const EXTENDED = /^([^:]*:[^:#!@]*)[#!@](.*)$/s

/** Whether the body of a FULL is from C firmware, whose units are plain UCUM: no `<aid>;`, and a frame time (`ts`) in seconds. */
export const isFirmware = (body: string, ts: number): boolean => ts < SECONDS && !/^\d+;/.test(body)

/** `ms`: the frame's time. */
export function readFirmware(body: string, aid: number, ms: number): FirmwareBody | null {
  const single = body.includes('>') ? null : SINGLE.exec(body)
  // such a body uses no template: it is always FULL
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
    // the firmware splits its slots at the last colon; with another colon in the text after it, the slots differ from
    // ours: learn no sensors, so that nothing builds on it
    if (extended && extended[2]!.includes(':')) unsure = true
    if (kept >= MOST_SENSORS || !holds(segment)) continue
    template += plain
    kept++
  }
  return { text, template: kept === 0 ? null : unsure ? start : template }
}

/** Whether a segment fits into the firmware's table: none of its texts is empty or too long. */
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
