// Each fault of the plan, done at its time. Lasting faults end on their own, at the latest when the faults of the run are
// over.

import { BROKER } from './broker'
import { addressOf, type Edit } from './config'
import { Dice, running } from './engine'
import type { Fault } from './plan'
import type { Port } from './serial'
import type { Card, Machine, World } from './world'

/** Puts every fault of the plan on the clock. */
export function schedule(world: World): void {
  for (const fault of world.plan.faults)
    world.engine.after(fault.at, () => {
      if (!world.faulty) return
      world.note(`fault ${fault.kind} ${world.machines[fault.machine]!.name} ${Math.round(fault.ms)} ms`)
      doFault(world, world.machines[fault.machine]!, fault, new Dice(fault.seed))
    })
}

/** ms between two queries to the SQL view: its worker stops after a minute without one */
const ASK_MS = [5000, 50_000, 200_000]

/** Queries the SQL view of the upstream from time to time; its answers do not matter while there are faults. */
export function ask(world: World, dice: Dice): void {
  world.engine.after(dice.pick(ASK_MS), () => {
    running.owner = world.upstream.program
    world.upstream.gateway?.database?.queryPackets({ limit: 5 }).catch(() => undefined)
    ask(world, dice)
  })
}

/** The faults of the run are over: lasting ones end. */
export function heal(world: World): void {
  world.faulty = false
  world.note('healed')
  Object.assign(world.net.weather, { loss: Math.min(0.02, world.plan.weather.loss) })
  world.net.cut.clear()
  world.net.lossy.clear()
  world.broker.muteUntil = 0
  world.lines?.heal()
  for (const machine of world.machines) {
    machine.armed.clear()
    machine.dieInStart = 0
    machine.disk.fault = null
    slow(machine, 1)
    // one that is frozen goes on at its time: what waits for it must not be overtaken
    if (machine.program) machine.program.dieAt = Number.POSITIVE_INFINITY
    // also data that a faulty disk refused to read
    if (machine.edit) machine.reload({ ...machine.edit, without: undefined })
  }
}

const gentle = new WeakMap<Machine, () => number>()

/** Syncs take so many times as long. */
function slow(machine: Machine, times: number, most = 0): void {
  const usual = gentle.get(machine) ?? machine.disk.latency
  gentle.set(machine, usual)
  machine.disk.latency = times === 1 ? usual : () => Math.min(most, usual() * times)
}

/** An adapter of a serial line in the machine, if it has one. */
function portOf({ world, host }: Machine, dice: Dice): Port | undefined {
  const ports = world.lines?.of(host) ?? []
  return ports[dice.below(ports.length)]
}

function doFault(world: World, machine: Machine, fault: Fault, dice: Dice): void {
  const { engine, net } = world
  const { ms, power } = fault
  const { disk, program } = machine
  const over = (run: () => void): void => {
    engine.after(ms, () => {
      if (world.faulty) run()
    })
  }
  const { ways } = world.plan
  const other = dice.pick(machine.neighbours)
  const [here, direct] = [addressOf(machine.number), addressOf(other.number)]
  const { media } =
    ways[!machine.isUpstream && ways[machine.number]!.to === other.number ? machine.number : other.number]!
  const [brokered, both] = [media.includes('MQTT'), media.length > 1]
  /** the machine that answers this one, or this one if it is a relay */
  const receiver = world.machines[machine.receives ? machine.number : ways[machine.number]!.to]!
  const there = brokered && (!both || dice.chance(0.5)) ? BROKER : direct
  switch (fault.kind) {
    case 'kill':
      if (program) machine.die(false)
      return
    case 'power':
      if (program) machine.die(true)
      return
    case 'mid-call':
      program?.dieIn(1 + dice.below(200), power)
      return
    case 'mid-recovery':
      if (!program) return
      machine.dieInStart = 1 + dice.below(120)
      machine.die(power)
      return
    case 'after-cursor':
      machine.armed.set('cursor', () => {
        if (!world.faulty) return
        const { program: now } = machine
        const wait = dice.scale(0.1, 2000)
        if (now && dice.chance(0.5)) now.dieIn(1 + dice.below(8), power)
        else engine.after(wait, () => world.faulty && machine.program && machine.program === now && machine.die(power))
      })
      return
    case 'after-commit': {
      // answers are lost first, then the receiver dies after a commit
      const cuts = [BROKER, ...world.machines.map(({ host }) => host.address)].map(
        to => `${addressOf(receiver.number)}>${to}`,
      )
      for (const way of cuts) net.cut.add(way)
      engine.after(dice.scale(10, 3000), () => {
        receiver.armed.set('commit', () => {
          const wait = dice.scale(0.1, 100)
          const now = receiver.program
          engine.after(wait, () => {
            if (world.faulty && now && receiver.program === now) receiver.die(power)
          })
        })
      })
      engine.after(dice.scale(1000, 20_000), () => {
        for (const way of cuts) net.cut.delete(way)
      })
      return
    }
    case 'after-roll': {
      // soon after the next new segment
      const wait = dice.scale(0.1, 3000)
      machine.armed.set('segment', () => {
        engine.after(wait, () => {
          if (world.faulty && machine.program) machine.die(power)
        })
      })
      return
    }
    case 'slow-sync-kill':
      if (!program) return
      slow(machine, 1e4, dice.between(2000, 8000))
      engine.after(dice.between(500, 6000), () => {
        if (!world.faulty) return
        if (machine.program) machine.die(false)
        slow(machine, 1)
        machine.armed.set('up', () => {
          const wait = dice.scale(1, 20_000)
          engine.after(wait, () => {
            if (world.faulty && machine.program) machine.die(true)
          })
        })
      })
      return
    case 'disk':
      disk.fault = { code: dice.pick(['ENOSPC', 'EIO', 'EROFS'] as const), share: dice.pick([1, 1, 0.5, 0.05]) }
      over(() => {
        disk.fault = null
      })
      return
    case 'failed-sync-power':
      disk.fault = { code: 'EIO', share: dice.pick([1, 0.5]), only: 'sync' }
      engine.after(dice.scale(200, 4000), () => {
        if (!world.faulty) return
        disk.fault = null
        const wait = dice.scale(10, 20_000)
        engine.after(wait, () => {
          if (world.faulty && machine.program) machine.die(true)
        })
      })
      return
    case 'slow-disk':
      slow(machine, 1e4, dice.scale(200, 7000))
      over(() => slow(machine, 1))
      return
    case 'partition':
      net.cut.add(`${here}>${there}`).add(`${there}>${here}`)
      over(() => {
        net.cut.delete(`${here}>${there}`)
        net.cut.delete(`${there}>${here}`)
      })
      return
    case 'one-way': {
      const way = dice.chance(0.5) ? `${here}>${there}` : `${there}>${here}`
      net.cut.add(way)
      over(() => net.cut.delete(way))
      return
    }
    case 'loss': {
      const share = dice.pick([0.3, 0.5, 0.9])
      net.lossy.set(`${here}>${there}`, share).set(`${there}>${here}`, dice.pick([share, 0]))
      over(() => {
        net.lossy.delete(`${here}>${there}`)
        net.lossy.delete(`${there}>${here}`)
      })
      return
    }
    case 'delay': {
      const { jitter } = world.plan.weather
      net.weather.jitter = dice.pick([500, 2000, 10_000])
      over(() => {
        net.weather.jitter = jitter
      })
      return
    }
    case 'freeze':
      // a second one during it does not end it earlier: waiting packets arrive in order
      if (program) program.frozenUntil = Math.max(program.frozenUntil, engine.now + Math.min(ms, 60_000))
      return
    case 'clock':
      machine.wrongBy += dice.pick([-1, 1]) * dice.scale(100, 7_200_000)
      world.wrong.least = Math.min(world.wrong.least, machine.wrongBy)
      world.wrong.most = Math.max(world.wrong.most, machine.wrongBy)
      return
    case 'rot': {
      const sealed = disk
        .list('/data/log')
        .filter(name => name.endsWith('.seg'))
        .sort()
        .slice(0, -2)
      if (sealed.length === 0) return
      const k = dice.below(sealed.length)
      const base = (name: string | undefined): number =>
        name === undefined ? Number.POSITIVE_INFINITY : Number(name.slice(0, -4))
      machine.rotted.push([base(sealed[k]), base(sealed[k + 1])])
      disk.rot(`/data/log/${sealed[k]}`, dice)
      return
    }
    case 'stop':
      machine.stop()
      return
    case 'new-card':
      machine.insert()
      return
    case 'old-card': {
      let card: Card | undefined
      const copy = (): void => void (card = machine.copy())
      if (power) copy()
      else {
        machine.armed.set('stopped', copy)
        machine.stop()
      }
      over(() => card && machine.insert(card))
      return
    }
    case 'repeat-power': {
      // a slow commit of the receiver, the same readings again from a new run of the sender, and then a power cut of the
      // receiver
      const upstream = world.machines[ways[machine.number]!.to]!
      slow(upstream, 1e4, 60_000)
      engine.after(dice.scale(200, 3000), () => {
        if (!world.faulty || !program || machine.program !== program) return
        machine.armed.set('up', () => {
          engine.after(dice.scale(100, 10_000), () => {
            slow(upstream, 1)
            if (world.faulty && upstream.program) upstream.die(true)
          })
        })
        machine.die(false)
      })
      engine.after(60_000, () => slow(upstream, 1))
      return
    }
    case 'view':
      program?.threads.at(-1)?.die(new Error('out of memory'))
      return
    case 'reload': {
      const { intervalMs } = world.plan
      const uplink = {
        ...{ frames: dice.pick(['auto', 'full']), batch_window_ms: dice.pick([0, 100, 2000]) },
        ...(dice.chance(0.3) && { rate_packets_s: dice.pick([5, 20]) }),
      }
      const edit: Edit = {
        ...(dice.chance(0.5) && { uplink }),
        intervalMs: dice.pick([intervalMs, 500, 3000]),
        reversed: dice.chance(0.3),
      }
      const parts = machine.receives
        ? (['uplinks', 'sources', 'receivers'] as const)
        : (['uplinks', 'sources'] as const)
      const without = dice.chance(0.5) ? dice.pick(parts) : undefined
      machine.reload({ ...edit, without: machine.isUpstream ? 'receivers' : without })
      over(() => machine.reload(edit))
      return
    }
    case 'plug': {
      const port = portOf(machine, dice)
      port?.pull()
      over(() => {
        port?.plug()
        if (port) port.opensAt = engine.now + dice.pick([0, 0, 100, 2000, 10_000])
      })
      return
    }
    case 'noise': {
      world.lines!.noise = dice.scale(0.001, 0.1)
      over(() => {
        world.lines!.noise = world.plan.noise
      })
      return
    }
    case 'stuck': {
      const port = portOf(machine, dice)
      if (port) port.stuckUntil = engine.now + ms
      return
    }
    case 'broker-away':
      world.broker.away(Math.min(ms, 60_000))
      return
    case 'broker-drop':
      world.broker.drop(dice.pick([1, 0.5]))
      return
    case 'broker-mute':
      world.broker.muteUntil = engine.now + ms
      return
    default:
      fault.kind satisfies never
  }
}
