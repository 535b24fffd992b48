// The structures of an advertisement: each has a length, a type and a value (Bluetooth Core Specification, volume 3,
// part C, 11). Pure. Any device in radio range can send these bytes: a length past the end stops the parsing, and the
// structures before it are kept.

const NAMES = new Set([0x08, 0x09])
const SERVICE_DATA_16 = 0x16
const MANUFACTURER_DATA = 0xff

/** The value of the first structure that `wanted` accepts, or null. The value is a view of `data`. */
function find(data: Uint8Array, wanted: (type: number, value: Uint8Array) => boolean): Uint8Array | null {
  for (let at = 0; at + 1 < data.length; ) {
    const length = data[at]!
    const end = at + 1 + length
    // a length of 0 ends the data early: the remaining bytes are padding
    if (length === 0 || end > data.length) return null
    const value = data.subarray(at + 2, end)
    if (wanted(data[at + 1]!, value)) return value
    at = end
  }
  return null
}

const starts = (value: Uint8Array, id: number): boolean => value.length >= 2 && (value[0]! | (value[1]! << 8)) === id

/** Service data of a 16-bit UUID, without the UUID; null: none. */
export function serviceData(data: Uint8Array, uuid: number): Uint8Array | null {
  return find(data, (type, value) => type === SERVICE_DATA_16 && starts(value, uuid))?.subarray(2) ?? null
}

/** Manufacturer data of a company, without the company number; null: none. */
export function manufacturerData(data: Uint8Array, company: number): Uint8Array | null {
  return find(data, (type, value) => type === MANUFACTURER_DATA && starts(value, company))?.subarray(2) ?? null
}

/** The advertised name, complete or shortened; null: none. */
export function localName(data: Uint8Array): string | null {
  const value = find(data, type => NAMES.has(type))
  return value && Buffer.from(value.buffer, value.byteOffset, value.length).toString('utf8')
}

const ADDRESS = /^[0-9a-f]{2}(:[0-9a-f]{2}){5}$/

/** The address as this driver writes it, `a4:c1:38:8d:18:b2`, or null if it is not one; `-` or no separator is accepted too. */
export function bleAddress(text: string): string | null {
  const plain = text.trim().toLowerCase().replaceAll('-', ':')
  const address = /^[0-9a-f]{12}$/.test(plain) ? plain.replace(/(..)(?=.)/g, '$1:') : plain
  return ADDRESS.test(address) ? address : null
}

export const addressBytes = (address: string): Buffer => Buffer.from(address.replaceAll(':', ''), 'hex')
