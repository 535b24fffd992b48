// Options of a stress run (specification, "run_stress"): names, defaults and limits, for both the method and the command.

import type { OptionSpec } from '../../contract'
import { OsError } from '../program'

/**
 * The path of a packet: encoded only, also decoded and compared in this process, or sent over UDP on the loopback interface
 * in between.
 */
const CHAIN_MODES = ['core', 'e2e_inproc', 'e2e_loopback'] as const
export type ChainMode = (typeof CHAIN_MODES)[number]

export interface StressOptions {
  /** total number of packets */
  total: number
  /** parallel lanes, spread over processes and threads */
  workers: number
  /** devices per lane */
  sources: number
  /** shows a progress bar if there is a terminal */
  progress: boolean
  /** null: the configured core */
  core_backend: string | null
  /** true: without rscore nothing is sent and everything counts as failed */
  require_rust: boolean
  /** share of the packets, 0–1, whose header is decoded and checked */
  header_probe_rate: number
  /** packets a lane encodes before the next lane runs; several are encoded in batches of at most 256 */
  batch_size: number
  /** 1: in this process; more: that many child processes */
  processes: number
  /** worker threads per process; null: the lanes run in the main thread of the process */
  threads_per_process: number | null
  chain_mode: ChainMode
}

export const STRESS_DEFAULTS: Readonly<StressOptions> = {
  total: 200,
  workers: 8,
  sources: 6,
  progress: true,
  core_backend: null,
  require_rust: false,
  header_probe_rate: 0,
  batch_size: 1,
  processes: 1,
  threads_per_process: null,
  chain_mode: 'core',
}

const BOUNDS = {
  total: [1, 1e9],
  workers: [1, 1024],
  sources: [1, 65_536],
  batch_size: [1, 65_536],
  processes: [1, 256],
  threads_per_process: [1, 256],
} as const

/** Fills in defaults. Throws BAD_REQUEST, with the name and the range. */
export function settle(requested: Partial<StressOptions>): StressOptions {
  const known = Object.entries(requested).filter(([, value]) => value !== undefined)
  const out: StressOptions = { ...STRESS_DEFAULTS, ...Object.fromEntries(known) }
  for (const [name, [min, max]] of Object.entries(BOUNDS)) {
    const value = out[name as keyof typeof BOUNDS]
    if (value === null && name === 'threads_per_process') continue
    if (!Number.isInteger(value) || value! < min || value! > max)
      throw wrong(name, `a whole number ${min}–${max}`, value)
  }
  const rate = out.header_probe_rate
  if (!(rate >= 0 && rate <= 1)) throw wrong('header_probe_rate', 'a number 0–1', rate)
  if (!CHAIN_MODES.includes(out.chain_mode))
    throw wrong('chain_mode', `one of ${CHAIN_MODES.join(', ')}`, out.chain_mode)
  return out
}

const wrong = (name: string, what: string, value: unknown): OsError =>
  new OsError('BAD_REQUEST', `${name} must be ${what}, not ${JSON.stringify(value)}`)

const number = (name: keyof typeof BOUNDS, help: string): OptionSpec => {
  const [min, max] = BOUNDS[name]
  return { type: 'integer', value: 'N', min, max, help }
}

/** The options of the command line. */
export const STRESS_OPTIONS: Readonly<Record<string, OptionSpec>> = {
  total: number('total', 'packets in all (200; full_load: 100000 for each CPU)'),
  workers: number('workers', 'lanes side by side (8)'),
  sources: number('sources', 'devices of each lane (6)'),
  'no-progress': { type: 'boolean', help: 'no progress bar' },
  'core-backend': { type: 'string', value: 'NAME', help: 'core to use (else as configured)' },
  'require-rust': { type: 'boolean', help: 'fail unless rscore is active' },
  'header-probe-rate': { type: 'number', value: 'SHARE', min: 0, max: 1, help: 'share of headers checked (0)' },
  'batch-size': number('batch_size', 'packets per turn of a lane, made as batches (1)'),
  processes: number('processes', 'processes (1: this one)'),
  'threads-per-process': number('threads_per_process', 'worker threads of each process (none)'),
  'chain-mode': {
    type: 'string',
    value: 'MODE',
    choices: CHAIN_MODES,
    help: 'how far a packet goes: encoded (core), decoded too, or over UDP in between',
  },
}
