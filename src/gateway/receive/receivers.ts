// The configured receivers: each has one listening medium, and several may run in parallel. Received packets are passed to
// receive.ts.
//
// Errors: a receiver that cannot be created (no driver, options refused, its medium switched off) is a link that is down with
// its reason; a name that is already in use is logged and left out.

import { isDeepStrictEqual } from 'node:util'
import type { ReceiverConfig } from '../../config'
import { asOsError } from '../../lib/errors'
import { SerialQueue } from '../../lib/serial-queue'
import type { Medium, Openable } from '../../links/contracts'
import { mediumEnabled, mediumOff } from '../../links/enabled'
import { hostOf } from '../../links/network'
import { withHardware } from '../../links/physical'
import { portOf } from '../../links/registry'
import { UnavailableLink } from '../../links/unavailable-link'
import type { Applied } from '../guard/apply'
import type { LinkDeps } from '../link-deps'
import type { Receive } from './receive'

interface RunningReceiver {
  readonly settings: ReceiverConfig
  readonly enabled: boolean
}

export class Receivers {
  readonly #links: LinkDeps
  readonly #receive: Receive
  readonly #running = new Map<string, RunningReceiver>()
  readonly #turns = new SerialQueue()

  constructor(links: LinkDeps, receive: Receive) {
    this.#links = links
    this.#receive = receive
  }

  get names(): string[] {
    return [...this.#running.keys()]
  }

  /**
   * Applies the complete list: closes removed or changed receivers (their settings, or the flag of their medium), creates new
   * ones, and keeps the others. Calls run one after another. Never rejects.
   */
  apply(list: readonly ReceiverConfig[]): Promise<Applied> {
    return this.#turns.run(() => this.#apply(list))
  }

  async #apply(list: readonly ReceiverConfig[]): Promise<Applied> {
    const { config, logger, supervisor } = this.#links
    const applied: Applied = { added: [], removed: [], changed: [], kept: [] }
    const wanted = new Map<string, RunningReceiver>()
    for (const entry of list) {
      const settings = withHardware(bus => config.get(`RESOURCES.physical_config.${bus}`), entry)
      if (wanted.has(settings.name)) logger.error(`two receivers are named ${settings.name}: the second is left out`)
      else wanted.set(settings.name, { settings, enabled: mediumEnabled(config, settings.medium) })
    }
    for (const [name, running] of this.#running) {
      if (isDeepStrictEqual(wanted.get(name), running)) continue
      this.#running.delete(name)
      await supervisor.remove(name)
      applied[wanted.has(name) ? 'changed' : 'removed'].push(name)
    }
    for (const [name, receiver] of wanted) {
      if (this.#running.has(name)) {
        applied.kept.push(name)
        continue
      }
      const thing = await this.#make(receiver)
      try {
        supervisor.add(thing, hostOf(receiver.settings))
      } catch (error) {
        logger.error(`receiver ${name}: ${asOsError(error).message}`)
        continue
      }
      this.#running.set(name, receiver)
      if (!applied.changed.includes(name)) applied.added.push(name)
    }
    return applied
  }

  async #make({ settings, enabled }: RunningReceiver): Promise<Openable> {
    const { name, medium, host, ...others } = settings
    if (!enabled) return new UnavailableLink(name, mediumOff(medium))
    const { config, clock, logger, registry, trueNow, identity } = this.#links
    try {
      const driver = await registry.mediumDriver(medium)
      const options = {
        ...others,
        mode: 'listen',
        host,
        listen_host: host ?? '0.0.0.0',
        port: settings.port ?? portOf(medium, settings),
      }
      const thing: Medium = driver.create(name, options, {
        clock,
        logger: logger.child(name),
        trueNow,
        identity,
        dataDir: config.dataDir,
      })
      thing.onPacket((packet, origin) => this.#receive.packet(packet, origin))
      return thing
    } catch (error) {
      return new UnavailableLink(name, asOsError(error))
    }
  }
}
