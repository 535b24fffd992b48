// The true state in a run, and the promises checked against it: a committed reading is upstream once, or still in a log on
// the way, or in a loss ledger by its number; no value, unit or time ever differs; times of a device only grow; a cursor passes
// only what the next machine has committed; logs and queues stay within their limits.
import { beyond } from './bounds'
import { insertCard, memoryOf, refuseOn, settleOn } from './cards'
import { Device, LATE_ANSWER_MS, type Logged, type Memory, type Place } from './device'
import { become } from './engine'
import { differs, type Row, rowsOf } from './reading'
import type { Machine, World } from './world'

type Gateway = NonNullable<Machine['gateway']>
type Fact = Parameters<Gateway['log']['appendFact']>[0]

export class Truth {
  readonly devices = new Map<string, Device>()
  /** counters for the summary of a run */
  readonly counts = { readings: 0, arrived: 0, dropped: 0, lied: 0 }
  readonly #lies: boolean
  #looks = 0
  /** n of each device by seq of a log, of records that are not committed yet */
  readonly #waiting = new Map<Machine, { seq: number; device: Device; n: number }[]>()

  constructor(readonly world: World) {
    this.#lies = world.plan.diskMode === 'lying'
  }

  device(name: string): Device {
    let device = this.devices.get(name)
    if (!device) {
      const { ways } = this.world.plan
      const way: number[] = []
      for (let at = Number(name.slice(2)); at > 0 && ways[at]; at = ways[at]!.to) way.push(at)
      device = new Device(name, [...way, 0], machine => ways[machine]!.media.includes('MQTT'))
      this.devices.set(name, device)
    }
    return device
  }

  /** What a source reads next. */
  reading(machine: Machine): Row[] {
    const device = this.device(`GW${machine.number}`)
    const n = device.next++
    device.readings.set(n, { at: machine.wall - machine.wrongBy, measured: this.world.engine.now })
    this.counts.readings++
    return rowsOf(n)
  }

  /** A log was opened: its content is compared with what it had committed, and its writes are checked from now on. */
  opened(machine: Machine, gateway: Gateway): void {
    const { log } = gateway
    this.#waiting.set(machine, [])
    this.#recovered(machine, gateway)
    const append = log.appendFact.bind(log)
    log.appendFact = (fact, link, quality) => {
      const seq = append(fact, link, quality)
      this.#appended(machine, gateway, fact, seq, quality === 'unsynced')
      return seq
    }
    const clock = log.appendClock.bind(log)
    log.appendClock = (change, quality = 'synced') => {
      this.#own(machine)?.times.stepped(change.offsetMs, quality === 'synced')
      return clock(change, quality)
    }
    const cursor = log.appendCursor.bind(log)
    ;(log as { appendCursor: typeof cursor }).appendCursor = (name, seq) => {
      const own = cursor(name, seq)
      this.#cursor(machine, gateway, name, seq)
      machine.happened('cursor')
      return own
    }
    log.onCommit(seq => this.#commit(machine, gateway, seq))
  }

  died(machine: Machine): void {
    // uncommitted records may be present after the next start or not
    this.#waiting.set(machine, [])
  }

  /** The devices in a machine's log, with what is known of each there. */
  *#of({ number }: Machine): Iterable<[Device, Place]> {
    for (let k = 1; k <= this.world.plan.gateways; k++) {
      const device = this.device(`GW${k}`)
      const place = device.places.get(number)
      if (place) yield [device, place]
    }
  }

  memory(machine: Machine): Memory {
    return memoryOf(this.#of(machine))
  }

  inserted(machine: Machine, memory?: Memory): void {
    insertCard(this.#of(machine), this.world.engine.now, memory)
  }

  settled(machine: Machine, seq: number): void {
    settleOn(this.#of(machine), seq, this.world.engine.now)
  }

  refused(machine: Machine, seq: number): void {
    refuseOn(this.#of(machine), seq)
  }

  /** A disk that lies, or an older card, may lose the step of the time that corrected a reading already sent: then it is sent with another time. */
  #uncorrected = (device: Device, before: Logged, fact: Fact): boolean =>
    before.tRaw !== fact.tRaw && (this.#lies || device.isFromEarlierCard(this.#n(fact)!))

  #broken(text: string): void {
    this.world.broken(text)
  }

  /** The device of its source. */
  #own({ isUpstream, name }: Machine): Device | undefined {
    return isUpstream ? undefined : this.device(name.toUpperCase())
  }

  #n(fact: Fact): number | undefined {
    return fact.sensors.find(({ id }) => id === 'count')?.value as number | undefined
  }

  #appended(machine: Machine, gateway: Gateway, fact: Fact, seq: number, unsynced: boolean): void {
    const device = this.device(fact.id)
    const place = device.places.get(machine.number)
    if (!place) return void this.#broken(`${machine.name} logs a fact of ${fact.id}, which does not send to it`)
    const n = this.#n(fact)
    if (n === undefined)
      return void this.#broken(`${machine.name} logs a fact without its counter: ${JSON.stringify(fact)}`)
    this.#right({ machine, gateway }, device, fact, n)
    const late = place === device.own ? device.times.logged(n, fact.tRaw, unsynced) : undefined
    if (late !== undefined)
      this.#broken(`${machine.name}: reading ${n} of ${fact.id} has the time ${fact.tRaw}, and the one before ${late}`)
    const before = place.list.get(n)
    const gone = before && (machine.hasRotted(before.seq) || this.#named(gateway, before.seq))
    if (before && before.seq >= gateway.log.firstSeq && !gone && !this.#uncorrected(device, before, fact))
      this.#broken(`${machine.name} has reading ${n} of ${fact.id} twice: seq ${before.seq} and ${seq}`)
    const logged = { seq, tRaw: fact.tRaw, lost: place.committed.has(n) ? (before?.lost ?? before) : undefined }
    place.list.set(n, logged)
    place.numbers.set(seq, n)
    if (machine.isUpstream) this.counts.arrived++
    else place.ahead.set(n, logged)
    this.#waiting.get(machine)!.push({ seq, device, n })
  }

  /** No wrong value, unit or time, ever. */
  #right({ machine, gateway }: { machine: Machine; gateway: Gateway }, device: Device, fact: Fact, n: number): void {
    const { readings, own: first } = device
    const reading = readings.get(n)
    const what = `${machine.name}: reading ${n} of ${fact.id}`
    if (!reading) return void this.#broken(`${what} was never measured: ${JSON.stringify(fact)}`)
    if (differs(fact, n)) this.#broken(`${what} has other values: ${JSON.stringify(fact)}`)
    if (device.places.get(machine.number) === first) {
      const { kinds, wrong } = this.world
      const clock = gateway.time.quiet.wall()
      const off = clock - reading.at
      const slack = kinds.has('clock') || kinds.has('freeze') ? 62_000 : 2000
      if (off < wrong.least - slack || off > wrong.most + slack)
        this.#broken(`${what} is logged with the clock off by ${off} ms`)
      // later: it waits for a last time that was ahead
      const ahead = fact.tRaw - clock
      if (ahead < -2000 || (ahead > 2000 && !kinds.has('clock')))
        this.#broken(`${what} has a time that is ${ahead} ms ahead of the clock`)
      return
    }
    this.#hasId(device, fact.aid, what)
    const taken = device.times.taken(n)
    if (!taken.includes(fact.tRaw))
      this.#broken(`${what} has the time ${fact.tRaw}, and was sent with ${taken.join() || 'none'}`)
  }

  /** An uplink takes a record: with the time that the log says. */
  taken(machine: Machine, { seq, fact }: { seq: number; fact: Fact }): void {
    const device = this.device(fact.id)
    const n = this.#n(fact)
    const logged = n !== undefined && device.places.get(machine.number)?.list.get(n)
    if (!logged || logged.seq !== seq)
      return void this.#broken(`${machine.name} sends reading ${n} of ${fact.id} (seq ${seq}), which is not in its log`)
    const own = device.places.get(machine.number) === device.own
    const wanted = own ? device.times.took(n, logged.tRaw, fact.tRaw) : logged.tRaw
    if (wanted !== undefined && wanted !== fact.tRaw)
      this.#broken(`${machine.name} sends reading ${n} of ${fact.id} with ${fact.tRaw}, and its log says ${wanted}`)
  }

  /** A device keeps its id, and no other has it. */
  #hasId(device: Device, aid: number, what: string): void {
    device.id ||= aid
    for (const other of this.devices.values())
      if ((other === device) !== (other.id === aid))
        this.#broken(`${what} has the id ${aid}, and ${other.name} has the id ${other.id}`)
  }

  #commit(machine: Machine, gateway: Gateway, seq: number): void {
    const waiting = this.#waiting.get(machine)!
    while (waiting.length > 0 && waiting[0]!.seq <= seq) {
      const { device, n, seq: own } = waiting.shift()!
      // a commit passes records that RAM could not keep before it
      if (this.#named(gateway, own)) continue
      const place = device.places.get(machine.number)!
      place.committed.add(n)
      const logged = place.list.get(n)
      if (logged?.seq === own) logged.lost = undefined
      if (place.byBroker && device.readings.get(n)!.measured > place.goneAt)
        place.blindUntil = Math.min(place.blindUntil, this.world.engine.now + LATE_ANSWER_MS)
    }
    machine.happened('commit')
  }

  /** The cursor of an uplink passes a reading only when the next machine has it permanently. */
  #cursor(machine: Machine, gateway: Gateway, name: string, seq: number): void {
    if (machine.isUpstream || name !== 'uplinks') return
    if (seq > gateway.log.committedSeq)
      this.#broken(`${machine.name}: cursor ${seq} is beyond the commit ${gateway.log.committedSeq}`)
    const { ways } = this.world.plan
    // readings accepted by a broker count as delivered
    if (this.#lies || ways[machine.number]!.media.includes('MQTT')) return
    const { firstSeq } = gateway.log
    for (const [, place] of this.#of(machine))
      for (const [n, logged] of place.ahead)
        if (place.next!.committed.has(n) || place.lost(n)) place.ahead.delete(n)
        else if (
          logged.seq <= seq &&
          logged.seq >= firstSeq &&
          place.list.get(n) === logged &&
          !this.#named(gateway, logged.seq)
        )
          return void this.#broken(
            `${machine.name}: the cursor passes reading ${n} (seq ${logged.seq}), which the next machine has not committed`,
          )
  }

  /** The loss ledger has the number. */
  #named(gateway: Gateway, seq: number): boolean {
    return gateway.log.losses.some(({ from, to }) => from <= seq && seq <= to)
  }

  /** After a start: everything that was committed is present, or lost by a limit and named. */
  #recovered(machine: Machine, gateway: Gateway): void {
    const { log } = gateway
    const found = new Map<Device, Map<number, Logged>>()
    let lastSeq = 0
    const own = this.#own(machine)
    let run = 0
    own?.times.reset()
    for (const { seq, fact, boot, clock, quality } of log.read(0, { kinds: ['fact', 'clock'], committedOnly: false })) {
      if (boot !== run) own?.times.booted()
      run = boot
      if (clock) own?.times.stepped(clock.offsetMs, quality === 'synced')
      if (!fact) continue
      if (seq <= lastSeq) this.#broken(`${machine.name}: seq ${seq} behind ${lastSeq}`)
      lastSeq = seq
      const device = this.device(fact.id)
      const n = this.#n(fact)
      if (n === undefined) {
        this.#broken(`${machine.name} holds a fact without its counter: seq ${seq}`)
        continue
      }
      let of = found.get(device)
      if (!of) found.set(device, (of = new Map()))
      const before = of.get(n)
      if (before && !this.#uncorrected(device, before, fact))
        this.#broken(`${machine.name} holds reading ${n} of ${fact.id} twice: seq ${before.seq} and ${seq}`)
      of.set(n, { seq, tRaw: fact.tRaw })
      if (device === own) own.times.logged(n, fact.tRaw, quality === 'unsynced')
    }
    own?.times.booted()
    for (const [device, place] of this.#of(machine)) {
      const { list, committed, next } = place
      place.numbers.clear()
      const of = found.get(device) ?? new Map<number, Logged>()
      for (const [n, was] of list) {
        if (of.has(n)) continue
        if (committed.has(n)) this.#missing(machine, gateway, device.name, n, (was.lost ?? was).seq)
        if (was.lost) list.set(n, was.lost)
        if (!committed.has(n) || this.#lies) {
          list.delete(n)
          committed.delete(n)
        }
      }
      for (const [n, now] of of) {
        const was = list.get(n)
        // a power cut may bring back an earlier record, whose commit failed
        const differs = was && ((was.seq !== now.seq && committed.has(n)) || was.tRaw !== now.tRaw)
        if (differs && !this.#lies)
          this.#broken(
            `${machine.name}: reading ${n} of ${device.name} has seq ${now.seq} after a start, before it ${was.seq}`,
          )
        list.set(n, now)
        place.numbers.set(now.seq, n)
        if (next && !next.committed.has(n)) place.ahead.set(n, now)
        // recovery syncs the records it adopts before anything is answered, unless the disk refuses
        if (!log.degraded) committed.add(n)
        else if (!committed.has(n)) this.#waiting.get(machine)!.push({ seq: now.seq, device, n })
      }
    }
    this.#waiting.get(machine)!.sort((a, b) => a.seq - b.seq)
  }

  #missing(machine: Machine, gateway: Gateway, name: string, n: number, seq: number): void {
    const { log } = gateway
    if (this.#lies) {
      this.counts.lied++
      return
    }
    const reasons = log.losses.filter(({ from, to }) => from <= seq && seq <= to).map(({ reason }) => reason)
    if (reasons.includes('dropped')) return
    if (reasons.includes('damaged') && machine.hasRotted(seq)) return
    this.#broken(
      `${machine.name}: the committed reading ${n} of ${name} (seq ${seq}) is gone after start ${machine.starts}` +
        `${reasons.length > 0 ? `, named as ${reasons.join()}` : ', and named nowhere'}`,
    )
  }

  /** Cheap promises, every few seconds. */
  async look(): Promise<void> {
    for (const machine of this.world.machines) {
      const { gateway } = machine
      if (!gateway || machine.starting) continue
      await become(machine.program)
      for (const what of beyond(this.world, machine, ++this.#looks % 32 === 0)) this.#broken(what)
    }
    const waiting = this.world.engine.pending
    if (waiting > 20_000) this.#broken(`${waiting} timers and packets wait`)
  }

  /** What keeps the world from catching up. */
  async open(): Promise<string[]> {
    const reasons: string[] = []
    for (const machine of this.world.machines) {
      const { gateway } = machine
      if (!gateway || machine.starting) {
        reasons.push(`${machine.name} is not up`)
        continue
      }
      await become(machine.program)
      const { log } = gateway
      const lag = gateway.database?.lagRecords() ?? 0
      if (lag > 0) reasons.push(`${machine.name} has ${lag} records that its SQL view lacks`)
      if (log.committedSeq < log.lastSeq) reasons.push(`${machine.name} has records that are not committed`)
      // on disks that lie numbers are reused, and a cursor may be ahead of them
      if (machine.isUpstream || this.#lies) continue
      const drops = log.losses.filter(({ reason }) => reason === 'dropped')
      for (const [{ name }, place] of this.#of(machine))
        for (const n of place.committed) {
          if (place.next!.committed.has(n) || place.lost(n)) continue
          const { seq } = place.list.get(n) ?? { seq: 0 }
          // the ledger keeps the newest 64 ranges of a reason
          if (this.#named(gateway, seq) || (drops.length >= 64 && seq < drops[0]!.from)) place.dropped.add(n)
          else reasons.push(`${machine.name}: reading ${n} of ${name} (seq ${seq}) was not passed on`)
          if (reasons.length > 5) return reasons
        }
      if (reasons.length > 0) continue
      const backlogs = Object.values(gateway.status().uplinks).map(({ backlog }) => backlog)
      if (backlogs.length === 0 || backlogs.some(n => n !== 0))
        reasons.push(`${machine.name} has a backlog of ${backlogs}`)
    }
    return reasons
  }

  /** At the end, when all is quiet: the readable content of the logs. */
  async end(): Promise<void> {
    const { upstream } = this.world
    for (const { places } of this.devices.values())
      for (const { dropped } of places.values()) this.counts.dropped += dropped.size
    if (this.#lies || !upstream.gateway) return
    await become(upstream.program)
    const there = new Map<string, Map<number, Logged>>()
    for (const { seq, fact } of upstream.gateway.log.read(0, { kinds: ['fact'] })) {
      if (!fact) continue
      const n = this.#n(fact)!
      const of = there.get(fact.id) ?? new Map<number, Logged>()
      const before = of.get(n)
      if (before && !this.#uncorrected(this.device(fact.id), before, fact))
        this.#broken(`the upstream holds reading ${n} of ${fact.id} twice`)
      of.set(n, { seq, tRaw: fact.tRaw })
      there.set(fact.id, of)
    }
    for (const [name, device] of this.devices)
      for (const n of device.upstream.committed)
        if (!there.get(name)?.has(n)) {
          if (this.#named(upstream.gateway, device.upstream.list.get(n)!.seq)) this.counts.dropped++
          else this.#broken(`the upstream's log no longer has reading ${n} of ${name}`)
        }
  }
}
