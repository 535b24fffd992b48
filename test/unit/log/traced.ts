// A log that traces every file operation with its bytes, and its own messages.
import type { FlashLogOptions } from '../../../src/log'
import type { Trace } from '../../lib/trace'
import { DIR, factOf, LOCAL, openLog, type Rig } from './helpers'
import { MemFiles, type Operation, systemError } from './memfiles'

/** Files whose operations are recorded, equal ones in a row as one with a count; `fails` makes some fail. */
export class Traced extends MemFiles {
  constructor(readonly lines: string[]) {
    super()
  }
  fails: (operation: Operation, path: string) => string | undefined = () => undefined
  #last = ''
  #times = 0
  override gate = (operation: Operation, path: string, bytes?: number): void => {
    const code = this.fails(operation, path)
    const name = path.slice(DIR.length + 1).replace(`.${process.pid}.`, '.PID.')
    const entry = `${operation} ${name}${bytes === undefined ? '' : ` ${bytes}`}${code ? ` ${code}` : ''}`
    if (operation !== 'read' && operation !== 'close') {
      if (entry !== this.#last) this.done()
      this.#last = entry
      this.#times++
    }
    if (code) throw systemError(code)
  }
  reads = 0
  readBytes = 0
  override readAt(path: string, offset: number, length: number): Buffer {
    this.reads++
    this.readBytes += length
    return super.readAt(path, offset, length)
  }
  done(): void {
    if (this.#times > 0) this.lines.push(`  ${this.#last}${this.#times > 1 ? ` × ${this.#times}` : ''}`)
    this.#times = 0
  }
}

/** The parts of a traced run of a log. */
export function tracedLog({ lines, say }: Trace) {
  const traced = (from?: MemFiles): Traced => Object.assign(new Traced(lines), from && { files: from.copy().files })
  const open = async (files: Traced, options: Omit<Partial<FlashLogOptions>, 'files'> = {}): Promise<Rig> => {
    const level = (name: string) => (text: string) => say(`  ${name}: ${text}`)
    const logger = { debug: level('debug'), info: level('info'), warn: level('warn'), error: level('error') }
    const sizes = { maxBytes: 256 * 1024, segmentBytes: 32 * 1024, version: '1' }
    const rig = await openLog({ files, ...sizes, logger: logger as never, ...options })
    files.done()
    say('opened', { boot: rig.log.boot, clean: rig.log.cleanStop, ...rig.log.status() })
    return rig
  }

  const state = ({ log }: Rig, files: Traced): void => {
    files.done()
    say('status', { ...log.status(), waiting: log.pendingBytes, opened: files.opened })
    if (log.losses.length > 0) say('losses', log.losses)
  }

  const fill = async ({ log, timers }: Rig, from: number, to: number, text: string): Promise<void> => {
    for (let k = from; k < to; k++) {
      log.appendFact(factOf(k, text), LOCAL, 'synced')
      if (k % 16 === 15) await timers.advance(1100)
    }
  }

  /** What readers of every kind get, and what is counted after some positions. */
  const look = ({ log }: Rig, files: Traced): void => {
    const { first_seq, last_seq } = log.status()
    const marks = [0, first_seq, Math.floor((first_seq + last_seq) / 2), last_seq]
    say(
      'counts',
      marks.map(seq => [log.factsAfter(seq), log.bytesAfter(seq)]),
    )
    say(
      'starts',
      [1, 10, 100, 1000].map(facts => log.startOfLast(facts)),
    )
    for (const options of [
      {},
      { committedOnly: false },
      { kinds: ['cursor', 'clock', 'boot', 'loss'] as const },
      { alarms: true },
      { upTo: marks[2]! },
      { kinds: ['clock'] as const, most: 7 },
    ]) {
      const reader = log.reader(0, options)
      const seqs: number[] = []
      for (let record = reader.next(); record; record = reader.next()) seqs.push(record.seq)
      let sum = 0
      for (const seq of seqs) sum = (Math.imul(sum, 31) + seq) | 0
      const { reads, readBytes } = files
      say(`read ${JSON.stringify(options)}`, [
        seqs.length,
        seqs[0],
        seqs.at(-1),
        sum,
        reader.position,
        reads,
        readBytes,
      ])
    }
    files.done()
  }

  return { traced, open, state, fill, look }
}

export const LONG = 'x'.repeat(900)
