// How an option names a pin. Only the schema: code that reads a configuration does not load the board files.
import * as v from 'valibot'

const pinName = v.pipe(v.string(), v.minLength(1), v.maxLength(31))

/** The same three forms as keys next to others: `{name: "door", pin: "GPIO17"}`; PIN_WAYS says how many are needed. */
export const pinEntries = {
  /** "GPIO17", or the kernel's name of the line */
  pin: v.optional(pinName),
  /** number of the pin on the header: 11 */
  header: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(40))),
  /** with `line`: device (/dev/gpiochip2), name (gpiochip2) or label (pinctrl-rp1) of the chip */
  chip: v.optional(v.pipe(v.string(), v.minLength(1))),
  line: v.optional(v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(65_535))),
}

export interface PinKeys {
  pin?: string | undefined
  header?: number | undefined
  chip?: string | undefined
  line?: number | undefined
}

/** A pin as options name it. */
export type PinSpec = string | PinKeys

export const PIN_WAYS = 'name the pin by one of pin ("GPIO17"), header (11), or chip and line'

/** True when exactly one form is used, and it is complete. */
export const oneWay = ({ pin, header, chip, line }: PinKeys): boolean =>
  [pin, header, chip ?? line].filter(way => way !== undefined).length === 1 &&
  (chip === undefined) === (line === undefined)

/** An option that is a pin: "GPIO17", {"pin": "GPIO17"}, {"header": 11} or {"chip": "pinctrl-rp1", "line": 17}. */
export const pinSpec = v.union([pinName, v.pipe(v.strictObject(pinEntries), v.check(oneWay, PIN_WAYS))], PIN_WAYS)
