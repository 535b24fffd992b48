// Gives every configured source to the supervisor and its readings to the intake. A source that cannot be made (no such
// type, wrong options) is a link that is down with its reason; a group that the intake refuses is counted and told.
import type { SourceConfig } from '../../config'
import { asOsError } from '../../lib/errors'
import { MissingLink } from '../../links/missing'
import type { LinkParts } from '../parts'
import { Deadband } from './deadband'
import type { Intake } from './intake'

export type SourceEntry = Pick<SourceConfig, 'name' | 'type' | 'deadband'>

export async function addSources(
  { clock, logger, registry, supervisor }: LinkParts,
  list: readonly SourceEntry[],
  intake: Intake,
): Promise<void> {
  const bands = new Map<string, Deadband>()
  for (const source of list) {
    const { name, type, deadband, ...options } = source
    try {
      const driver = await registry.sourceDriver(type)
      bands.set(name, new Deadband(deadband ?? 0))
      supervisor.add(driver.create(name, options, { clock, logger: logger.child(name) }))
    } catch (error) {
      supervisor.add(new MissingLink(name, asOsError(error)))
    }
  }
  supervisor.onReadings((source, readings) => {
    const band = bands.get(source.name)
    if (band && !band.passes(readings, clock.mono())) {
      intake.counters.unchanged++
      return
    }
    try {
      intake.submit(readings)
    } catch (error) {
      intake.counters.refused_groups++
      logger.child(source.name).error(asOsError(error).message)
    }
  })
}
