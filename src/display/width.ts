// The number of terminal columns of a text: wide letters take two, combining marks none. Written by hand, reasons in
// docs/dependencies.md.

const WIDE: readonly (readonly [number, number])[] = [
  [0x1100, 0x115f],
  [0x2e80, 0x303e],
  [0x3041, 0xa4cf],
  [0xac00, 0xd7a3],
  [0xf900, 0xfaff],
  [0xfe30, 0xfe6f],
  [0xff00, 0xff60],
  [0xffe0, 0xffe6],
  [0x1f300, 0x1f64f],
  [0x1f680, 0x1f6ff],
  [0x1f900, 0x1f9ff],
  [0x20000, 0x3fffd],
]
const JOINED = /^[\p{Mn}\p{Me}\p{Cf}]$/u

function charWidth(char: string): number {
  const code = char.codePointAt(0)!
  if (code < 0x300) return 1
  if (JOINED.test(char)) return 0
  return WIDE.some(([from, to]) => code >= from && code <= to) ? 2 : 1
}

const ASCII = /^[\x20-\x7e]*$/

export function textWidth(text: string): number {
  if (ASCII.test(text)) return text.length
  let width = 0
  for (const char of text) width += charWidth(char)
  return width
}

/** The start of the text that fits, and its width. */
export function fit(text: string, width: number): { text: string; width: number } {
  if (ASCII.test(text)) return { text: text.slice(0, width), width: Math.min(text.length, width) }
  let out = ''
  let used = 0
  for (const char of text) {
    const wide = charWidth(char)
    if (used + wide > width) break
    out += char
    used += wide
  }
  return { text: out, width: used }
}

/** The text in exactly `width` columns: cut with an ellipsis, or padded with blanks. */
export function pad(text: string, width: number): string {
  if (width <= 0) return ''
  const whole = textWidth(text)
  if (whole <= width) return text + ' '.repeat(width - whole)
  const cut = fit(text, width - 1)
  return `${cut.text}…${' '.repeat(width - 1 - cut.width)}`
}
