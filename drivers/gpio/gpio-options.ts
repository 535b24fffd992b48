// Options of the source type `gpio`, as in Config.json under gateway.sources[].
import * as v from 'valibot'
import { oneWay, PIN_WAYS, pinEntries } from '../board/board-options'
import { channelEntries, interval, sensorId, strict, whole } from '../kit/common-options'

const MODES = ['level', 'edge', 'counter', 'frequency'] as const

const shared = {
  /** sensor id; default: the pin's name */
  name: v.optional(sensorId),
  ...pinEntries,
  /** 1 is the low level: a switch to ground with a pull-up */
  active_low: v.optional(v.boolean(), false),
}

const input = v.pipe(
  strict({
    ...shared,
    /**
     * level: 1 or 0 at the time of the reading; edge: the same, plus an immediate reading at every change; counter:
     * edges since the start; frequency: Hz
     */
    mode: v.optional(v.picklist(MODES), 'level'),
    /** pull-up or pull-down resistor inside the chip; left out: as the board has it */
    bias: v.optional(v.picklist(['pull_up', 'pull_down', 'disabled'])),
    /** changes shorter than this are bounces */
    debounce_ms: v.optional(v.pipe(v.number(), v.minValue(0), v.maxValue(10_000)), 0),
    /** the edges to count; default rising; edge: both */
    edge: v.optional(v.picklist(['rising', 'falling', 'both'])),
    /** frequency: averaged over at least this; 0: from reading to reading */
    window_s: v.optional(v.pipe(v.number(), v.minValue(0), v.maxValue(3600)), 0),
    /** frequency: without an edge for this long it is 0 Hz */
    timeout_s: v.optional(v.pipe(v.number(), v.minValue(0.1), v.maxValue(86_400)), 10),
    ...channelEntries,
  }),
  v.check(pin => oneWay(pin), PIN_WAYS),
  v.check(
    ({ mode, edge }) => mode !== 'frequency' || edge !== 'both',
    'edge: a frequency counts rising or falling edges',
  ),
  v.check(
    ({ mode, edge }) => mode !== 'level' || edge === undefined,
    'edge: a level has none; use mode edge or counter',
  ),
)

const output = v.pipe(
  strict({
    ...shared,
    drive: v.optional(v.picklist(['push_pull', 'open_drain', 'open_source']), 'push_pull'),
    /** logical value at the start of the gateway */
    initial: v.optional(v.picklist([0, 1]), 0),
    /** the same, named like the other two */
    on_start: v.optional(v.picklist([0, 1])),
    /** logical value when it is closed; keep: unchanged */
    on_stop: v.optional(v.picklist(['keep', 0, 1]), 'keep'),
    /** logical value after a crash, and in safe mode; left out: on_stop */
    on_fault: v.optional(v.picklist(['keep', 0, 1])),
    status: channelEntries.status,
  }),
  v.check(pin => oneWay(pin), PIN_WAYS),
)

/** most lines per chip of the supported boards */
const MOST = 64

export const gpioOptions = v.pipe(
  strict({
    interval_ms: interval(1000, 10),
    /** edge: minimum interval between two immediate readings, so that a bouncing contact does not fill the log */
    min_gap_ms: v.optional(whole(0, 60_000), 50),
    pins: v.optional(v.pipe(v.array(input), v.maxLength(MOST)), []),
    outputs: v.optional(v.pipe(v.array(output), v.maxLength(MOST)), []),
  }),
  v.check(({ pins, outputs }) => pins.length + outputs.length > 0, 'pins or outputs: name at least one'),
)

export type GpioOptions = v.InferOutput<typeof gpioOptions>
export type InputOptions = GpioOptions['pins'][number]
export type OutputOptions = GpioOptions['outputs'][number]
