// One slave's registers as channels of a source: requests the planned blocks one after the other and extracts the
// numbers from the answers. Errors: one block fails (its channels have no value; a silent slave is not polled for the
// other blocks); a block of several registers includes an address that the device lacks (its registers are read one by
// one, immediately and from then on); the bus fails (the link is lost).
import { asOsError, OsError } from '../../src/lib/errors'
import type { OpenableEvents } from '../../src/links/contracts'
import { type Sample, ValueChannel } from '../kit/channel'
import type { Probe } from '../kit/polled-source'
import { exceptionText } from './codec'
import type { SharedOptions } from './modbus-options'
import { plan, type RegisterBlock, type RegisterPlace } from './plan'
import type { Membership } from './shared'
import { coilAt, numberAt, type WordOrder, widthOf } from './values'

type Register = RegisterPlace & { readonly order: WordOrder; readonly bit: number }

const ILLEGAL_ADDRESS = 2
const ILLEGAL_VALUE = 3

/** The channels of a source's registers. A bit has no unit other than 1. */
export const channelsOf = ({ registers }: SharedOptions): ValueChannel[] =>
  registers.map(({ id, unit = '1', scale, offset, status }) => new ValueChannel({ id, unit, scale, offset, status }))

function placesOf(name: string, { registers, address_base }: SharedOptions): Register[] {
  return registers.map(({ id, table, address, type, word_order, bit = 0 }) => {
    const first = address - address_base
    const last = first + (table === 'coil' || table === 'discrete' ? 1 : widthOf(type)) - 1
    if (first < 0 || last > 0xffff)
      throw new OsError('CONFIG_INVALID', `options of ${name}: register ${id} lies outside of the addresses 0 to 65535`)
    return { table, address: first, type, order: word_order, bit }
  })
}

export class RegisterProbe implements Probe {
  readonly detail: Readonly<Record<string, number>>
  readonly #detail = { requests: 0, timeouts: 0, damaged: 0, exceptions: 0, damaged_bytes: 0 }
  readonly #places: readonly Register[]
  readonly #bus: Membership
  readonly #unit: number
  readonly #query: { timeoutMs: number; retries: number }
  readonly #planned: readonly RegisterBlock[]
  #blocks: readonly RegisterBlock[]

  /** Throws CONFIG_INVALID. */
  constructor(name: string, unit: number, options: SharedOptions, timeoutMs: number, bus: Membership) {
    this.detail = this.#detail
    this.#unit = unit
    this.#bus = bus
    this.#places = placesOf(name, options)
    this.#planned = plan(this.#places, { gap: options.gap, most: options.max_registers })
    this.#blocks = this.#planned
    this.#query = { timeoutMs, retries: options.retries }
  }

  async open(events: OpenableEvents): Promise<void> {
    this.#blocks = this.#planned
    await this.#bus.open(events)
  }

  close(): Promise<void> {
    return this.#bus.close()
  }

  onReturn(back: () => void): () => void {
    return this.#bus.onReturn(back)
  }

  async sample(): Promise<readonly Sample[]> {
    const samples: Sample[] = new Array(this.#places.length)
    let silent: OsError | undefined
    // a refused block is split, which appends its registers to the list
    const blocks = [...this.#blocks]
    for (const block of blocks) {
      const answer = silent ?? (await this.#ask(block))
      if (answer instanceof OsError) {
        if (answer.code !== 'BAD_REPLY') silent = answer
        for (const member of block.members) samples[member] = { value: null, raw: '', error: answer.message }
      } else if (answer[0]! & 0x80) blocks.push(...this.#refused(block, answer[1]!, samples))
      else for (const member of block.members) samples[member] = this.#cut(block, this.#places[member]!, answer)
    }
    // counted for the complete bus: the damaged answer's slave is unknown
    this.#detail.damaged_bytes = this.#bus.bus.transport.damagedBytes ?? 0
    return samples
  }

  /** The answer, or the error. Throws LINK_DOWN when the bus itself is lost. */
  async #ask({ request }: RegisterBlock): Promise<Uint8Array | OsError> {
    this.#detail.requests++
    try {
      return await this.#bus.bus.query(this.#unit, request, this.#query)
    } catch (thrown) {
      const error = asOsError(thrown)
      if (error.code === 'BAD_REPLY') this.#detail.damaged++
      else if (error.code === 'NO_REPLY') this.#detail.timeouts++
      else throw error
      return error
    }
  }

  /** The registers of a refused block, to be read one by one if the refusal justifies a split. */
  #refused(block: RegisterBlock, code: number, samples: Sample[]): RegisterBlock[] {
    this.#detail.exceptions++
    const error = `slave ${this.#unit}, ${block.table} ${block.address}: ${exceptionText(code)}`
    for (const member of block.members) samples[member] = { value: null, raw: hex([code]), error }
    if (block.members.length < 2 || (code !== ILLEGAL_ADDRESS && code !== ILLEGAL_VALUE)) return []
    const alone = block.members.flatMap(member =>
      plan([this.#places[member]!]).map(one => ({ ...one, members: [member] })),
    )
    this.#blocks = this.#blocks.flatMap(other => (other === block ? alone : [other]))
    return alone
  }

  #cut({ address }: RegisterBlock, { table, address: mine, type, order, bit }: Register, answer: Uint8Array): Sample {
    const index = mine - address
    if (table === 'coil' || table === 'discrete') {
      const value = coilAt(answer, 2, index)
      return { value, raw: String(value) }
    }
    const at = 2 + index * 2
    const raw = hex(answer.subarray(at, at + widthOf(type) * 2))
    const value = numberAt(answer, at, type, order, bit)
    if (value !== null && Number.isFinite(value)) return { value, raw }
    return { value: null, raw, error: value === null ? 'is no BCD number' : 'is no number' }
  }
}

const hex = (bytes: Iterable<number>): string => [...bytes].map(byte => byte.toString(16).padStart(2, '0')).join(' ')
