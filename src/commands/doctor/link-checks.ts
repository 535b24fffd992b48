// Checks of inputs and outputs: ports, sources, receivers, upstream. A running gateway reports the state of its links;
// without one, ports are tried and the upstream is contacted.

import type { UplinkConfig } from '../../config'
import type { LinkStatus } from '../../gateway/status'
import { counted } from '../../lib/counted'
import { asOsError } from '../../lib/errors'
import { mediumEnabled } from '../../links/enabled'
import { mediumInfo } from '../../links/registry'
import { type Checks, type DoctorContext, type Finding, failed, ok, skipped, warning, worst } from './finding'

/** errno of a port that cannot be listened on → why, and what to do */
const REFUSED: Readonly<Record<string, readonly [why: string, remedy: string]>> = {
  EADDRINUSE: ['another program uses it', 'stop that program (ss -lptun names it) or choose another port'],
  EACCES: ['ports below 1024 need a permission', 'choose port 1024 or above'],
  EADDRNOTAVAIL: ['this machine does not have that address', 'use 0.0.0.0, or an address of this machine (ip addr)'],
}

const portOf = (medium: string, port: unknown): number | undefined => {
  const n = port ?? mediumInfo(medium)?.default_port
  return typeof n === 'number' ? n : undefined
}

/** Media that listen on a port. */
const LISTENS: Readonly<Record<string, 'udp' | 'tcp'>> = { UDP: 'udp', TCP: 'tcp', QUIC: 'udp' }

const findingOf = (name: string, { state, reason, hint, last_error }: LinkStatus): Finding => {
  if (state === 'down') return failed(`${name} is down${reason ? `: ${reason}` : ''}`, hint)
  if (state === 'up' || state === 'disabled') return ok(`${name} is ${state}`)
  // not every machine has every sensor
  if (state === 'absent') return ok(`${name} is not present: ${reason}`)
  const why = reason ?? last_error
  return warning(`${name} is ${state}${why ? `: ${why}` : ''}`, hint)
}

/** Faults in the options of links of one kind, before any of them is opened. */
async function problems({ context }: DoctorContext, kind: 'sources' | 'uplinks' | 'receivers'): Promise<Finding[]> {
  const all = (await context.linkProblems?.()) ?? []
  return all
    .filter(problem => problem.kind === kind)
    .map(({ text, hint, warns }) => (warns ? warning(text, hint) : failed(text, hint)))
}

/** Contacts the peer of an uplink without changing anything there. */
async function speak({ machine }: DoctorContext, uplink: UplinkConfig): Promise<Finding> {
  const { name, medium, host } = uplink
  const kind = mediumInfo(medium)?.name ?? medium
  const port = portOf(medium, uplink.port)
  if (!host || port === undefined) return skipped(`${name}: ${kind} is checked by a running gateway only`)
  const where = `${name}: ${kind} ${host}:${port}`
  let address: string
  try {
    address = await machine.resolve(host)
  } catch (error) {
    const { message, hint } = asOsError(error)
    return failed(`${name}: ${message}`, hint)
  }
  if (kind === 'TCP' || kind === 'MQTT') {
    const why = await machine.connects(address, port)
    return why
      ? failed(`${where}: ${why}`, 'check that the server runs, its address, and firewalls')
      : ok(`${where} answers`)
  }
  if (kind !== 'UDP') return ok(`${where}: the name resolves`)
  const why = await machine.answers(address, port)
  if (!why) return ok(`${where} answers`)
  if (uplink.delivery === 'best_effort') return ok(`${where}: the name resolves; best effort needs no answer`)
  return failed(
    `${where}: ${why}`,
    'check that the server runs, its address, and firewalls; delivery: best_effort for one that never answers',
  )
}

export const LINK_CHECKS: Checks = {
  async ports(doctor) {
    const { context, machine } = doctor
    const { config, gateway } = context
    const { host, port } = config.config.RESOURCES.service_plugins.web_user
    if (gateway) {
      const { links } = gateway.status()
      const busy = config.config.gateway.receivers
        .map(({ name }) => [name, links[name]] as const)
        .filter(([, link]) => link?.state === 'down')
      const page = context.webUrl?.()
      return worst(
        busy.map(([name, link]) => failed(`receiver ${name}: ${link?.reason ?? 'down'}`, link?.hint)),
        ok(`the gateway listens; ${page ? `page on ${page}` : 'the page is off'}`),
      )
    }
    const wanted = [
      { what: 'page', kind: 'tcp' as const, host, port },
      ...config.config.gateway.receivers.flatMap(({ name, medium, host: at, port: configured }) => {
        const kind = LISTENS[mediumInfo(medium)?.name ?? '']
        const number = portOf(medium, configured)
        return kind && number ? [{ what: `receiver ${name}`, kind, host: at || '0.0.0.0', port: number }] : []
      }),
    ]
    const findings: Finding[] = await problems(doctor, 'receivers')
    for (const { what, kind, host: at, port: number } of wanted) {
      const why = await machine.resolve(at).then(
        address => machine.listen(kind, address, number),
        error => asOsError(error).message,
      )
      const where = `${kind.toUpperCase()} ${at}:${number} (${what})`
      const [meaning, remedy] = REFUSED[why ?? ''] ?? [why, undefined]
      findings.push(why ? failed(`${where}: ${meaning}`, remedy) : ok(`${where} is free`))
    }
    return worst(findings, ok('no port is needed'))
  },

  async sources(doctor) {
    const { context } = doctor
    const { gateway } = context
    if (!gateway) {
      const { sources: list } = context.config.config.gateway
      const wrong = await problems(doctor, 'sources')
      if (wrong.length > 0) return worst(wrong, wrong[0]!)
      return skipped(`${list ? list.length : 'all'} of this machine, not checked; os-node source test NAME reads one`)
    }
    const { links, safe_mode } = gateway.status()
    const named = new Set((await (await context.sources()).list()).map(({ name }) => name))
    const found = Object.entries(links).filter(([name]) => named.has(name))
    return worst(
      found.map(([name, link]) => findingOf(name, link)),
      skipped(safe_mode ? 'off in safe mode' : 'no source is configured'),
    )
  },

  async upstream(doctor) {
    const { config, gateway } = doctor.context
    const { uplinks } = config.config.gateway
    if (gateway) {
      const { links, uplinks: all, forwarding } = gateway.status()
      const found = Object.keys(all).flatMap(name => (links[name] ? [findingOf(name, links[name])] : []))
      const carried = forwarding?.uplink
        ? `${forwarding.uplink} is active, ${counted(forwarding.backlog, 'fact')} waiting`
        : ''
      const sum = worst(found, skipped('this gateway has no uplinks'))
      if (!carried) return sum
      // one active uplink is enough; problems of the others are still reported
      return sum.state === 'failed' || sum.state === 'warning'
        ? warning(`${carried}; ${sum.text}`, sum.hint)
        : ok(carried)
    }
    if (uplinks.length === 0) return ok('none configured: the gateway starts a local upstream')
    const findings: Finding[] = await problems(doctor, 'uplinks')
    for (const uplink of uplinks)
      findings.push(
        mediumEnabled(config, uplink.medium)
          ? await speak(doctor, uplink)
          : failed(
              `${uplink.name}: ${uplink.medium} is switched off`,
              `os-node transporter-toggle --name ${uplink.medium} --enable`,
            ),
      )
    return worst(findings, skipped('none'))
  },
}
