// The bytes of the native core (decision 0064), in AssemblyScript: frames of a whole batch from the cells that stage.ts wrote, and the slots
// of a whole batch of received frames. It keeps nothing between two calls, allocates nothing and knows no templates. `node
// test/lib/rscore-compiler.mjs` makes rscore.wasm of it; a test compares the two.

const CRC16: usize = 0 // 8 tables of 256 u16
const CRC8: usize = 4096 // 8 tables of 256 u8
const PAIRS: usize = 6144 // 3844 pairs of digits, u16
const DIGITS: usize = 13832 // 62 digits
const VALUES: usize = 13896 // digit values by byte, 255 = none
/** ends of frames (encode) */
export const ENDS: usize = 16384
export const MOST_FRAMES: i32 = 4096
/** what JavaScript copies in */
export const INPUT: usize = 32768
export const INPUT_SIZE: i32 = 98304
/** what it copies out */
export const OUTPUT: usize = 131072

const FULL: u32 = 63
const DIFF: u32 = 170
const HEART: u32 = 127
const P5: f64 = 916132832

for (let i = 0; i < 256; i++) {
  let a = i
  let b = i << 8
  for (let k = 0; k < 8; k++) {
    a = a & 0x80 ? (a << 1) ^ 0x07 : a << 1
    b = b & 0x8000 ? (b << 1) ^ 0x1021 : b << 1
  }
  store<u8>(CRC8 + i, <u8>a)
  store<u16>(CRC16 + 2 * i, <u16>b)
}
for (let i = 256; i < 2048; i++) {
  const b: u32 = load<u16>(CRC16 + 2 * (i - 256))
  store<u16>(CRC16 + 2 * i, <u16>((b << 8) ^ load<u16>(CRC16 + 2 * (b >> 8))))
  store<u8>(CRC8 + i, load<u8>(CRC8 + <usize>load<u8>(CRC8 + i - 256)))
}
memory.fill(VALUES, 255, 256)
for (let i = 0; i < 62; i++) {
  const digit = i < 10 ? 48 + i : i < 36 ? 87 + i : 29 + i
  store<u8>(DIGITS + i, <u8>digit)
  store<u8>(VALUES + digit, <u8>i)
}
for (let i = 0; i < 3844; i++)
  store<u16>(PAIRS + 2 * i, <u16>load<u8>(DIGITS + i / 62) | (<u16>load<u8>(DIGITS + (i % 62)) << 8))

// eight bytes a step; the tables say what a byte does so many places further on
// @ts-ignore: decorator
@inline
function crc8(from: usize, to: usize): u32 {
  let crc: u32 = 0
  for (; from + 8 <= to; from += 8)
    crc =
      <u32>load<u8>(CRC8 + 1792 + (crc ^ load<u8>(from))) ^
      load<u8>(CRC8 + 1536 + <usize>load<u8>(from, 1)) ^
      load<u8>(CRC8 + 1280 + <usize>load<u8>(from, 2)) ^
      load<u8>(CRC8 + 1024 + <usize>load<u8>(from, 3)) ^
      load<u8>(CRC8 + 768 + <usize>load<u8>(from, 4)) ^
      load<u8>(CRC8 + 512 + <usize>load<u8>(from, 5)) ^
      load<u8>(CRC8 + 256 + <usize>load<u8>(from, 6)) ^
      load<u8>(CRC8 + <usize>load<u8>(from, 7))
  if (from + 4 <= to) {
    crc =
      <u32>load<u8>(CRC8 + 768 + (crc ^ load<u8>(from))) ^
      load<u8>(CRC8 + 512 + <usize>load<u8>(from, 1)) ^
      load<u8>(CRC8 + 256 + <usize>load<u8>(from, 2)) ^
      load<u8>(CRC8 + <usize>load<u8>(from, 3))
    from += 4
  }
  while (from < to) crc = load<u8>(CRC8 + (crc ^ load<u8>(from++)))
  return crc
}

// @ts-ignore: decorator
@inline
function crc16(from: usize, to: usize, crc: u32): u32 {
  for (; from + 8 <= to; from += 8)
    crc =
      <u32>load<u16>(CRC16 + 3584 + 2 * ((crc >> 8) ^ load<u8>(from))) ^
      load<u16>(CRC16 + 3072 + 2 * ((crc & 255) ^ load<u8>(from, 1))) ^
      load<u16>(CRC16 + 2560 + 2 * <usize>load<u8>(from, 2)) ^
      load<u16>(CRC16 + 2048 + 2 * <usize>load<u8>(from, 3)) ^
      load<u16>(CRC16 + 1536 + 2 * <usize>load<u8>(from, 4)) ^
      load<u16>(CRC16 + 1024 + 2 * <usize>load<u8>(from, 5)) ^
      load<u16>(CRC16 + 512 + 2 * <usize>load<u8>(from, 6)) ^
      load<u16>(CRC16 + 2 * <usize>load<u8>(from, 7))
  if (from + 4 <= to) {
    crc =
      <u32>load<u16>(CRC16 + 1536 + 2 * ((crc >> 8) ^ load<u8>(from))) ^
      load<u16>(CRC16 + 1024 + 2 * ((crc & 255) ^ load<u8>(from, 1))) ^
      load<u16>(CRC16 + 512 + 2 * <usize>load<u8>(from, 2)) ^
      load<u16>(CRC16 + 2 * <usize>load<u8>(from, 3))
    from += 4
  }
  while (from < to) crc = ((crc << 8) & 0xffff) ^ load<u16>(CRC16 + 2 * ((crc >> 8) ^ load<u8>(from++)))
  return crc
}

/** digits of u < 62^5 */
// @ts-ignore: decorator
@inline
function small(p: usize, u: u32): usize {
  if (u < 3844) {
    if (u < 62) {
      store<u8>(p, load<u8>(DIGITS + u))
      return p + 1
    }
    store<u16>(p, load<u16>(PAIRS + 2 * u))
    return p + 2
  }
  const low = u % 3844
  const high = u / 3844
  if (high < 62) {
    store<u8>(p, load<u8>(DIGITS + high))
    store<u16>(p, load<u16>(PAIRS + 2 * low), 1)
    return p + 3
  }
  if (high < 3844) {
    store<u16>(p, load<u16>(PAIRS + 2 * high))
    store<u16>(p, load<u16>(PAIRS + 2 * low), 2)
    return p + 4
  }
  store<u8>(p, load<u8>(DIGITS + high / 3844))
  store<u16>(p, load<u16>(PAIRS + 2 * (high % 3844)), 1)
  store<u16>(p, load<u16>(PAIRS + 2 * low), 3)
  return p + 5
}

function large(p: usize, u: u64): usize {
  let digits = 1
  for (let left = u / 62; left > 0; left /= 62) digits++
  for (let at = p + digits - 1; at >= p; at--) {
    store<u8>(at, load<u8>(DIGITS + <usize>(u % 62)))
    u /= 62
  }
  return p + digits
}

/** An integer as Base62 text; no value (infinity) is `00`. */
// @ts-ignore: decorator
@inline
function number(p: usize, n: f64): usize {
  if (n < 0) {
    store<u8>(p++, 45)
    n = -n
  }
  if (n < P5) return small(p, <u32>n)
  if (n == Infinity) {
    store<u16>(p, 0x3030)
    return p + 2
  }
  // 64 bits wrap as the reference's do
  if (n >= 9223372036854775808.0) store<u8>(p++, 45)
  return large(p, <u64>n)
}

// @ts-ignore: decorator
@inline
function token(p: usize, bits: u64): usize {
  for (let at = p + 7; at >= p; at--) {
    const six = <u32>bits & 63
    const char = six < 26 ? 65 + six : six < 52 ? 71 + six : six < 62 ? six - 4 : six == 62 ? 45 : 95
    store<u8>(at, <u8>char)
    bits >>= 6
  }
  return p + 8
}

/** Copies the text of a cell: u32 length, the bytes from 4 on. Returns how long it is. */
// @ts-ignore: decorator
@inline
function text(p: usize, cell: usize): u32 {
  const length: u32 = load<u32>(cell)
  for (let k: u32 = 0; k < length; k++) store<u8>(p + k, load<u8>(cell + k, 4))
  return length
}

// @ts-ignore: decorator
@inline
function cellsOf(length: u32): usize {
  return (length + 11) & ~7
}

/** Writes `frames` frames from INPUT to OUTPUT, their ends (from OUTPUT on) to ENDS. Returns the last end. */
export function encode(frames: i32): i32 {
  let cell: usize = INPUT
  let p: usize = OUTPUT
  let known: u64 = 0
  let prefix: u32 = 0
  for (let k = 0; k < frames; k++) {
    const head = load<u64>(cell)
    const time = <u64>load<f64>(cell, 8)
    cell += 16
    const cmd = <u32>head & 255
    const secure = cmd == FULL + 1 || cmd == DIFF + 1 || cmd == HEART + 1
    const kind = secure ? cmd - 1 : cmd
    const start = p
    const key = cell
    if (secure) cell += cellsOf(load<u32>(key))
    const count = <u32>(head >> 16) & 0xffff
    store<u16>(p, <u16>(cmd | 256))
    store<u32>(p, bswap(<u32>(head >> 32)), 2)
    store<u8>(p, <u8>(head >> 8), 6)
    store<u16>(p, bswap(<u16>(time >> 32)), 7)
    store<u32>(p, bswap(<u32>time), 9)
    // command, route and TID are often those of the frame before
    const route = head & 0xffffffff0000ffff
    if (route != known || k == 0) {
      known = route
      prefix = crc16(p, p + 7, 0xffff)
    }
    p += 13
    const body = p
    if (kind == FULL) {
      let at = cell
      cell += 8 * count
      let length = text(p, cell)
      p = token(p + length, time)
      cell += cellsOf(length)
      for (let i: u32 = 0; i < count; i++) {
        length = text(p, cell)
        cell += cellsOf(length)
        p = number(p + length, load<f64>(at))
        at += 8
      }
      length = text(p, cell)
      cell += cellsOf(length)
      p += length
    } else if (kind == DIFF) {
      // the mask is the slots as one number, most significant byte first
      const bytes: u32 = (2 * count + 7) >> 3
      p += bytes
      let maskAt = p
      for (let first: u32 = 0; first < count; first += 16) {
        const mask = load<u32>(cell)
        cell += 8
        for (let left = min(4, bytes - (first >> 2)), shift = 0; left > 0; left--, shift += 8)
          store<u8>(--maskAt, <u8>(mask >> shift))
        for (let left = mask; left != 0; left &= left - 1) {
          if (ctz(left) & 1) {
            const end = number(p + 1, load<f64>(cell))
            cell += 8
            store<u8>(p, <u8>(end - p - 1))
            p = end
          } else {
            const length = text(p + 1, cell)
            cell += cellsOf(length)
            store<u8>(p, <u8>length)
            p += 1 + length
          }
        }
      }
    }
    const plain = crc8(body, p)
    if (secure) {
      const length: u32 = load<u32>(key)
      const off = plain & 31
      let i = length > 0 ? off % length : 0
      if (length > 0)
        for (let q = body; q < p; q++) {
          store<u8>(q, load<u8>(q) ^ load<u8>(key + i, 4) ^ <u8>off)
          if (++i == length) i = 0
        }
    }
    store<u8>(p++, <u8>plain)
    store<u16>(p, bswap(<u16>crc16(start + 7, p, prefix)))
    p += 2
    store<u32>(ENDS + 4 * k, <u32>(p - OUTPUT))
  }
  return <i32>(p - OUTPUT)
}

/** 1 for plaintext data of one route whose sums are right. */
// @ts-ignore: decorator
@inline
function sound(start: usize, end: usize): u32 {
  if (end < start + 16) return 0
  const head = <u32>load<u16>(start)
  if (head != (DIFF | 256) && head != (HEART | 256) && head != (FULL | 256)) return 0
  return <u32>(
    (crc8(start + 13, end - 3) == <u32>load<u8>(end - 3) &&
      crc16(start, end - 2, 0xffff) == <u32>bswap(load<u16>(end - 2)))
  )
}

/** Looks at `frames` received frames in INPUT, their ends (from INPUT on) in ENDS: sound() of each goes to OUTPUT, a byte each. */
export function check(frames: i32): void {
  let start: usize = INPUT
  for (let k = 0; k < frames; k++) {
    const end: usize = INPUT + load<u32>(ENDS + 4 * k)
    store<u8>(OUTPUT + k, <u8>sound(start, end))
    start = end
  }
}

/**
 * The same for `packets` packets in a frame of `size` bytes in INPUT, from `at` on, each after its length (u16). One that
 * would end after the frame is not sound, nor is any after it.
 */
export function checkPackets(at: i32, size: i32, packets: i32): void {
  let start: usize = INPUT + at
  const most: usize = INPUT + size
  memory.fill(OUTPUT, 0, packets)
  for (let k = 0; k < packets && start + 2 <= most; k++) {
    const end: usize = start + 2 + <usize>bswap(load<u16>(start))
    if (end > most) return
    store<u8>(OUTPUT + k, <u8>sound(start + 2, end))
    start = end
  }
}
