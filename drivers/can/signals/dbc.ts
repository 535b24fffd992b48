// Parses a DBC file: frames and their signals. It reads BO_, SG_ (with plain and extended multiplexing), SG_MUL_VAL_,
// SIG_VALTYPE_, VAL_, VAL_TABLE_ and the attributes that mark frames as J1939 or CAN FD; everything else is skipped.
//
// Errors: a line that cannot be parsed is skipped and listed in `problems` with its number, because real files are
// seldom clean. Exceeded bounds end the parsing, and are listed too. Nothing throws. Linear in the file.
import type { Parts } from '../../../src/lib/slices'
import { type Dbc, type DbcMessage, type DbcSignal, MAX_BYTES, MAX_PROBLEMS } from './model'
import { Tokens } from './tokens'

const MAX_MESSAGES = 20_000
const MAX_SIGNALS = 200_000
const MAX_VALUES = 200_000

const EXTENDED = 0x8000_0000
/** the message for signals that belong to no message */
const INDEPENDENT = 0xc000_0000

/** the words that begin a statement this parser reads */
const STATEMENTS = ['BO_', 'SG_MUL_VAL_', 'SIG_VALTYPE_', 'VAL_', 'VAL_TABLE_', 'BA_', 'BA_DEF_', 'BA_DEF_DEF_', 'NS_']
/** statements that end without a semicolon */
const WITHOUT_END = new Set(['BO_', 'NS_'])
const SKIPPED_LINES = new Set(['BU_', 'BS_', 'VERSION'])
/** words that begin a statement, so that an unterminated one does not consume the next */
const BEGINS = new Set([...STATEMENTS, ...'SG_ CM_ BU_ BS_ EV_ VERSION BO_TX_BU_ SIG_GROUP_ BA_REL_'.split(' ')])

/** statements per part */
const STATEMENTS_A_PART = 16

/** Work in parts: the file of a complete vehicle takes seconds on a small board. */
export const parsingDbc = (text: string): Parts<Dbc> => new Parser(text).run()

class Parser {
  readonly #tokens: Tokens
  /** by id with its flag bits, as in the file */
  readonly #messages = new Map<number, DbcMessage>()
  readonly #byName = new Map<DbcMessage, Map<string, DbcSignal>>()
  readonly #tables = new Map<string, ReadonlyMap<number, string>>()
  readonly #problems: string[] = []
  #signals = 0
  #values = 0
  /** values of the attribute VFrameFormat, in numeric order */
  #formats: readonly string[] = ['StandardCAN', 'ExtendedCAN', 'reserved', 'J1939PG']
  #formatOf = new Map<number, string>()
  #defaultFormat = ''
  #protocol = ''

  constructor(text: string) {
    this.#tokens = new Tokens(text)
  }

  *run(): Parts<Dbc> {
    const tokens = this.#tokens
    for (let statements = 1; tokens.kind !== 'end'; statements++) {
      if (statements % STATEMENTS_A_PART === 0) yield
      const { line, text, kind } = tokens
      try {
        tokens.next()
        if (kind === 'name') this.#statement(text)
      } catch (error) {
        if (error instanceof RangeError) {
          this.#report(line, error.message)
          break
        }
        this.#report(line, `${text}: ${(error as Error).message}`)
        tokens.skipLine()
      }
    }
    this.#setFormats()
    let settled = 0
    for (const message of this.#messages.values()) {
      if (++settled % STATEMENTS_A_PART === 0) yield
      this.#settle(message)
    }
    return { messages: [...this.#messages.values()], problems: this.#problems }
  }

  #report(line: number | undefined, what: string): void {
    if (this.#problems.length < MAX_PROBLEMS) this.#problems.push(line === undefined ? what : `line ${line}: ${what}`)
  }

  #statement(keyword: string): void {
    const tokens = this.#tokens
    if (keyword === 'BO_') this.#message()
    else if (keyword === 'NS_') this.#newSymbols()
    else if (keyword === 'SG_MUL_VAL_') this.#multiplexed()
    else if (keyword === 'SIG_VALTYPE_') this.#valueType()
    else if (keyword === 'VAL_') this.#valueNames()
    else if (keyword === 'VAL_TABLE_') this.#table()
    else if (keyword === 'BA_') this.#attribute()
    else if (keyword === 'BA_DEF_') this.#attributeDefinition()
    else if (keyword === 'BA_DEF_DEF_') this.#attributeDefault()
    if (SKIPPED_LINES.has(keyword)) tokens.skipLine()
    else if (BEGINS.has(keyword) && !WITHOUT_END.has(keyword)) tokens.skipStatement(name => BEGINS.has(name))
  }

  /** The list of keywords known to the editor: each is alone on its line. */
  #newSymbols(): void {
    const tokens = this.#tokens
    tokens.take(':')
    while (tokens.kind === 'name') {
      const { line, text } = tokens
      tokens.next()
      if (!tokens.is('end') && tokens.line === line) {
        if (BEGINS.has(text)) this.#statement(text)
        return
      }
    }
  }

  /** `BO_ 2364540158 EEC1: 8 Engine` and the SG_ lines below. */
  #message(): void {
    const tokens = this.#tokens
    const { line } = tokens
    const written = tokens.whole(0xffff_ffff)
    if (written < EXTENDED && written > 0x7ff) throw new SyntaxError(`${written} is not an id of 11 bits`)
    const name = tokens.name()
    tokens.expect(':')
    const length = tokens.whole(MAX_BYTES)
    tokens.skipLine() // the sender
    const message: DbcMessage = {
      id: written & 0x1fff_ffff,
      format: written >= EXTENDED ? 'extended' : 'standard',
      name,
      length,
      signals: [],
    }
    const known = new Map<string, DbcSignal>()
    while (tokens.is('name') && tokens.text === 'SG_') {
      const at = tokens.line
      try {
        tokens.next()
        this.#signal(message, known)
      } catch (error) {
        if (error instanceof RangeError) throw error
        this.#report(at, `signal of ${name}: ${(error as Error).message}`)
        tokens.skipLine()
      }
    }
    if (written === INDEPENDENT) return
    if (this.#messages.has(written)) {
      this.#report(line, `${name} has the id of another message`)
      return
    }
    if (this.#messages.size >= MAX_MESSAGES) throw new RangeError(`more than ${MAX_MESSAGES} messages`)
    this.#messages.set(written, message)
    this.#byName.set(message, known)
  }

  /** `EngSpeed m1M : 24|16@1+ (0.125,0) [0|8031.875] "rpm" Display` */
  #signal(message: DbcMessage, known: Map<string, DbcSignal>): void {
    const tokens = this.#tokens
    const name = tokens.name()
    const role = tokens.kind === 'name' ? tokens.name() : ''
    const [, value, both] = /^m(\d{1,10})(M?)$/.exec(role) ?? []
    if (role !== '' && role !== 'M' && value === undefined) throw new SyntaxError(`${name}: ${role} is no multiplexer`)
    tokens.expect(':')
    const start = tokens.whole(MAX_BYTES * 8 - 1)
    tokens.expect('|')
    const length = tokens.whole(MAX_BYTES * 8)
    tokens.expect('@')
    const order = tokens.text
    if (!/^[01][+-]$/.test(order)) throw tokens.wrong('a byte order and a sign such as 1+')
    tokens.next()
    tokens.expect('(')
    const factor = tokens.number()
    tokens.expect(',')
    const offset = tokens.number()
    tokens.expect(')')
    const [min, max] = this.#limits()
    const unit = tokens.quoted()
    tokens.skipLine() // the receivers
    if (length < 1 || length > 64) throw new SyntaxError(`${name} has ${length} bits, not 1 to 64`)
    if (!Number.isFinite(factor) || !Number.isFinite(offset)) throw new SyntaxError(`${name} has no number as factor`)
    if (known.has(name)) throw new SyntaxError(`${name} is there twice`)
    if (++this.#signals > MAX_SIGNALS) throw new RangeError(`more than ${MAX_SIGNALS} signals`)
    const signal: DbcSignal = {
      name,
      start,
      length,
      bigEndian: order[0] === '0',
      format: order[1] === '-' ? 'signed' : 'unsigned',
      factor,
      offset,
      min,
      max,
      unit,
      isSwitch: role === 'M' || both === 'M',
      // the name of the switch is set after all signals are known
      when: value === undefined ? undefined : { of: '', ranges: [[Number(value), Number(value)]] },
      values: undefined,
    }
    known.set(name, signal)
    message.signals.push(signal)
  }

  #limits(): [min: number, max: number] {
    const tokens = this.#tokens
    tokens.expect('[')
    const min = tokens.number()
    tokens.expect('|')
    const max = tokens.number()
    tokens.expect(']')
    return min < max ? [min, max] : [0, 0]
  }

  /** The signal named by a statement; undefined if the file does not define it. */
  #named(): DbcSignal | undefined {
    const message = this.#messages.get(this.#tokens.whole(0xffff_ffff))
    const name = this.#tokens.name()
    return message && this.#byName.get(message)!.get(name)
  }

  /** `SG_MUL_VAL_ 100 Pressure Selector 1-1, 3-5;` */
  #multiplexed(): void {
    const tokens = this.#tokens
    const signal = this.#named()
    const of = tokens.name()
    const ranges: [number, number][] = []
    do {
      const [, from, to] = /^(\d+)-(\d+)$/.exec(tokens.text) ?? []
      if (from === undefined) throw tokens.wrong('a range such as 0-3')
      if (++this.#values > MAX_VALUES) throw new RangeError(`more than ${MAX_VALUES} values`)
      ranges.push([Number(from), Number(to)])
      tokens.next()
    } while (tokens.take(','))
    if (signal) signal.when = { of, ranges }
  }

  /** `SIG_VALTYPE_ 100 Temperature : 1;` 1 is float, 2 double. */
  #valueType(): void {
    const signal = this.#named()
    this.#tokens.take(':')
    const type = this.#tokens.whole(3)
    if (!signal || type === 0) return
    if (signal.length !== type * 32 || type === 3) throw new SyntaxError(`${signal.name} has ${signal.length} bits`)
    signal.format = type === 1 ? 'float' : 'double'
  }

  /** `VAL_ 100 Gear 0 "Neutral" 1 "First";` or with the name of a table. */
  #valueNames(): void {
    const tokens = this.#tokens
    if (!tokens.is('number')) return // it belongs to an environment variable
    const signal = this.#named()
    const table = tokens.is('name') ? this.#tables.get(tokens.name()) : this.#pairs()
    if (signal) signal.values = table
  }

  #table(): void {
    const name = this.#tokens.name()
    this.#tables.set(name, this.#pairs())
  }

  #pairs(): ReadonlyMap<number, string> {
    const tokens = this.#tokens
    const pairs = new Map<number, string>()
    while (tokens.kind === 'number') {
      const value = tokens.number()
      if (++this.#values > MAX_VALUES) throw new RangeError(`more than ${MAX_VALUES} values`)
      pairs.set(value, tokens.quoted())
    }
    return pairs
  }

  /** `BA_ "VFrameFormat" BO_ 100 3;` or `BA_ "ProtocolType" "J1939";` */
  #attribute(): void {
    const tokens = this.#tokens
    const name = tokens.quoted()
    if (name === 'ProtocolType' && tokens.kind === 'text') this.#protocol = tokens.quoted()
    if (name !== 'VFrameFormat' || !tokens.take('BO_')) return
    const id = tokens.whole(0xffff_ffff)
    const value = tokens.kind === 'number' ? (this.#formats[tokens.whole(99)] ?? '') : tokens.quoted()
    if (this.#messages.has(id)) this.#formatOf.set(id, value)
  }

  /** `BA_DEF_ BO_ "VFrameFormat" ENUM "StandardCAN","ExtendedCAN","reserved","J1939PG";` */
  #attributeDefinition(): void {
    const tokens = this.#tokens
    if (!tokens.take('BO_') || tokens.quoted() !== 'VFrameFormat' || !tokens.take('ENUM')) return
    const words = [tokens.quoted()]
    while (tokens.take(',') && words.length < 100) words.push(tokens.quoted())
    this.#formats = words
  }

  #attributeDefault(): void {
    const tokens = this.#tokens
    const name = tokens.quoted()
    if (tokens.kind !== 'text') return
    if (name === 'VFrameFormat') this.#defaultFormat = tokens.quoted()
    else if (name === 'ProtocolType') this.#protocol ||= tokens.quoted()
  }

  /** A 29-bit frame is J1939 if it says so, or if the network is J1939 and the frame says nothing else. */
  #setFormats(): void {
    const fallback = this.#protocol.toUpperCase() === 'J1939' ? 'J1939PG' : this.#defaultFormat
    for (const [written, message] of this.#messages)
      if (message.format === 'extended' && (this.#formatOf.get(written) ?? fallback) === 'J1939PG')
        message.format = 'j1939'
  }

  /** Links multiplexed signals to their switch, and drops those with no switch or a circular one. */
  #settle(message: DbcMessage): void {
    const known = this.#byName.get(message)!
    const switches = message.signals.filter(signal => signal.isSwitch)
    const plain = switches.find(signal => signal.when === undefined) ?? switches[0]
    for (const signal of message.signals) if (signal.when?.of === '') signal.when.of = plain?.name ?? ''
    const good = message.signals.filter(signal => {
      const end = rootOf(signal, known)
      if (end !== undefined) return true
      this.#report(undefined, `${message.name}.${signal.name} is left out: it has no multiplexer`)
      return false
    })
    message.signals.splice(0, message.signals.length, ...good)
  }
}

/** The signal at the end of a chain of switches; undefined if the chain is broken or circular. */
function rootOf(signal: DbcSignal, known: ReadonlyMap<string, DbcSignal>): DbcSignal | undefined {
  let at: DbcSignal | undefined = signal
  for (let depth = 0; at && depth <= 16; depth++) {
    if (at.when === undefined) return at
    at = known.get(at.when.of)
  }
  return undefined
}
