// One run of one seed: faults for the planned time, then a fault-free world that must catch up within a limit.
import { Dice, running } from './engine'
import { ask, heal, schedule } from './faults'
import { type Fault, type Plan, type PlanOptions, planOf } from './plan'
import type { Compiled } from './program'
import { checkView } from './view'
import { isCrash, World } from './world'

/** virtual ms after the last fault until everything has caught up */
const LIVENESS_MS = 15 * 60_000
/** sources continue for so long after the faults */
const AFTERGLOW_MS = 60_000
const LOOK_MS = 5000
/** all data of the view is queried at the end */
const VIEW_MS = 240_000

export interface RunOptions extends PlanOptions {
  /** numbers of the faults to keep; default: all */
  keep?: readonly number[]
  trace?: (line: string) => void
  said?: (line: string) => void
  /** each start of a process evaluates a text of its own */
  apart?: boolean
  /** gateways with uplinks and receivers on the native core, whatever it measures */
  rscore?: boolean
}

export interface RunResult {
  seed: number
  /** undefined: every promise was kept */
  failure: string | undefined
  /** the failure: the run with the text shared and the one with texts apart differ */
  differs?: boolean
  /** of the trace */
  hash: number
  /** virtual ms */
  ms: number
  events: number
  packets: number
  starts: number
  faults: readonly Fault[]
  counts: { readings: number; arrived: number; dropped: number; lied: number }
  /** ms after the last fault until everything had caught up */
  settled: number
  /** calls of what the world does not have: also a failure */
  roundabouts: readonly string[]
  plan: Plan
}

const stray: string[] = []
/** unhandled rejections are a failure, unless a killed process left them */
process.on('unhandledRejection', error => {
  if (!isCrash(error)) stray.push(String(error instanceof Error ? error.stack : error))
})

// streams deliver their data after the event that brought it
process.on('uncaughtException', error => {
  if (!isCrash(error)) stray.push(String(error instanceof Error ? error.stack : error))
})

export async function simulate(seed: number, compiled: Compiled, options: RunOptions): Promise<RunResult> {
  const dice = new Dice(seed)
  const drawn = planOf(seed, dice, options)
  const plan = options.keep ? { ...drawn, faults: drawn.faults.filter((_, k) => options.keep!.includes(k)) } : drawn
  const world = new World(plan, compiled, dice.fork('world'), options.apart ?? false)
  world.trace = options.trace
  world.said = options.said
  world.rscore = options.rscore ?? false
  for (const machine of world.machines) machine.disk.lies = plan.diskMode === 'lying'
  const guarded = async (run: () => Promise<void>): Promise<void> => {
    try {
      await run()
    } catch (error) {
      world.broken(`a check failed: ${error instanceof Error ? error.stack : error}`)
    }
  }
  for (const machine of world.machines) machine.later(machine.isUpstream ? 0 : 100 + (machine.number - 1) * plan.lateMs)
  schedule(world)
  if (plan.windowPackets > 0) ask(world, dice.fork('ask'))
  const end = options.hours * 3_600_000
  const failed = (): boolean => world.failure !== undefined
  stray.length = 0
  running.strays.length = 0
  const phase = async (until: number, over: () => boolean | Promise<boolean> = failed): Promise<void> => {
    while (world.engine.now < until && !(await over())) {
      await world.engine.run(Math.min(until, world.engine.now + LOOK_MS), failed)
      if (!failed()) await guarded(() => world.truth.look())
    }
  }
  try {
    await phase(end)
    heal(world)
    world.measuring = plan.afterglow
    await phase(end + AFTERGLOW_MS)
    world.measuring = false
    const limit = world.engine.now + LIVENESS_MS
    await phase(limit, () => failed() || world.truth.open().then(open => open.length === 0))
    if (!failed()) {
      const open = await world.truth.open()
      if (open.length > 0)
        world.broken(`not in step ${LIVENESS_MS / 60_000} minutes after the last fault: ${open.join('; ')}`)
      else {
        await guarded(() => world.truth.end())
        let answered = plan.windowPackets === 0
        const check = (): void =>
          void checkView(world).then(
            () => (answered = true),
            error => world.broken(`the SQL view does not answer: ${error}`),
          )
        if (!answered) world.engine.after(0, check, world.upstream.program)
        await phase(world.engine.now + VIEW_MS, () => failed() || answered)
        if (!answered) world.broken(`the SQL view does not answer for ${VIEW_MS / 1000} s`)
      }
    }
  } catch (error) {
    world.broken(`the world fell apart: ${error instanceof Error ? error.stack : error}`)
  }
  await new Promise(resolve => setImmediate(resolve))
  if (running.strays.length > 0) world.broken(`a call belongs to no process: ${running.strays[0]}`)
  if (stray.length > 0) world.broken(`an unhandled rejection: ${stray[0]}`)
  const also =
    stray.length > 0 && !world.failure?.includes(stray[0]!) ? `\nalso an unhandled rejection: ${stray[0]}` : ''
  for (const machine of world.machines) machine.program?.kill()
  return {
    seed,
    failure: world.failure && world.failure + also,
    hash: world.hash,
    ms: world.engine.now,
    events: world.engine.events,
    packets: world.net.packets,
    starts: world.machines.reduce((sum, { starts }) => sum + starts, 0),
    faults: drawn.faults,
    counts: world.truth.counts,
    settled: world.engine.now - end,
    roundabouts: [...world.roundabouts],
    plan,
  }
}
