// At the end of a run: the SQL view of the upstream has every reading of its log once, in whatever windows, and its history counts them.
import type { World } from './world'

const PAGE = 500

/** Queries all data of the view; a fault in it fails the world. */
export async function checkView(world: World): Promise<void> {
  const { upstream, plan, truth } = world
  const { log } = upstream.gateway!
  const database = upstream.gateway!.database!
  // while no window can be written the oldest rows are removed from the view; a new worker reads the log for the rows
  // that are in no window
  if (database.status().left > 0) {
    upstream.program!.threads.at(-1)?.die(new Error('out of memory'))
    await new Promise<void>(resolve => world.engine.after(60_000, resolve, upstream.program))
  }
  const named = (seq: number): boolean => log.losses.some(({ from, to }) => from <= seq && seq <= to)
  for (const [name, device] of truth.devices) {
    const seen = new Set<number>()
    let rows = 0
    for (let offset = 0, more = true; more; offset += PAGE) {
      const { sensors } = await database.querySensors({ device_id: name, sensor_id: 'count', limit: PAGE, offset })
      for (const { normalized_value: value } of sensors) {
        const n = Number(value)
        if (seen.has(n) && !device.isFromEarlierCard(n)) world.broken(`the SQL view has reading ${n} of ${name} twice`)
        if (!device.readings.has(n)) world.broken(`the SQL view has reading ${n} of ${name}, which was never measured`)
        seen.add(n)
        rows++
      }
      more = sensors.length === PAGE
    }
    if (plan.diskMode === 'lying') continue
    const { list, committed } = device.upstream
    for (const n of committed) {
      const { seq } = list.get(n)!
      if (!seen.has(n) && !named(seq)) world.broken(`the SQL view lacks reading ${n} of ${name} (seq ${seq})`)
    }
    for (const n of seen)
      if (!committed.has(n)) world.broken(`the SQL view has reading ${n} of ${name}, and the log has not`)
    const { buckets } = await database.queryHistory({ device_id: name, sensor_id: 'count', buckets: 1 })
    const count = buckets.reduce((sum, bucket) => sum + bucket.count, 0)
    if (count !== rows) world.broken(`the history of ${name} counts ${count} readings, its rows are ${rows}`)
  }
}
