// Checks of the installation: configuration, data directory, log, identity, safe mode, access to the page.
import { coreProblem } from '../../cores'
import { isAssigned } from '../../lib/assigned-id'
import { counted } from '../../lib/counted'
import { ERRORS } from '../../lib/errors'
import { viewProblem } from '../../storage'
import { PORTS, type ServerDriver } from '../../storage/server/setup'
import { bytesText, duration } from '../../units/display'
import { type Checks, failed, ok, skipped, warning, worst } from './finding'

const MIB = 1 << 20
const LEAST_NODE = [20, 19] as const

export const INSTALLATION_CHECKS: Checks = {
  version({ context, machine }) {
    const [major = 0, minor = 0] = machine.nodeVersion.split('.').map(Number)
    const text = `os-node ${context.version} on Node ${machine.nodeVersion}`
    const old = major < LEAST_NODE[0] || (major === LEAST_NODE[0] && minor < LEAST_NODE[1])
    return old ? failed(text, `install Node ${LEAST_NODE.join('.')} or newer`) : ok(text)
  },

  config({ context: { config } }) {
    if (config.problem) return failed(config.problem.message, 'correct the file, or run os-node repair-config')
    if (config.warnings.length > 0)
      return warning(config.warnings.join('; '), 'os-node config-show --keys lists the keys')
    return ok(config.path)
  },

  async gateway({ context, machine }) {
    const status = context.gateway?.status()
    if (status) return ok(`runs (${status.role}) for ${duration(status.uptime_s)}`)
    const owner = await machine.owner(context.config.dataDir)
    if (!owner || owner.role === 'command') return ok('not running on this data directory')
    // queried from outside: its time to answer is over
    return failed(
      `process ${owner.pid} (os-node ${owner.role}) holds the data directory and does not answer`,
      `see its log; if it persists, end it: kill ${owner.pid}`,
    )
  },

  data_directory({ context: { config }, machine }) {
    const { dataDir } = config
    if (!machine.exists(dataDir)) {
      const parent = dataDir.replace(/\/[^/]+\/?$/, '') || '/'
      const why = machine.exists(parent) ? machine.access(parent) : undefined
      if (why) return failed(`${dataDir} cannot be created (${why})`, 'choose a writable folder with --data-dir')
      return ok(`${dataDir} is created at the first start`)
    }
    const why = machine.access(dataDir)
    if (why === 'EROFS') return failed(`${dataDir} is on a read-only file system`, 'mount it writable')
    if (why)
      return failed(
        `${dataDir} cannot be written (${why})`,
        `use sudo, or the user the gateway runs as; if that is ${machine.user}: sudo chown -R ${machine.user} ${dataDir}`,
      )
    return ok(dataDir)
  },

  async disk({ context: { config, log }, machine }) {
    const space = machine.space(config.dataDir)
    if (!space) return skipped('this system does not report its free space')
    const text = `${bytesText(space.free)} of ${bytesText(space.total)} free`
    const hint = 'free space, or lower gateway.log.max_bytes'
    if (space.free < 16 * MIB || space.free < space.total / 100) return failed(text, hint)
    const { bytes } = await log.summary()
    const wanted = config.config.gateway.log.max_bytes - bytes
    if (space.free < wanted) return warning(`${text}; the log may still grow by ${bytesText(wanted)}`, hint)
    return ok(text)
  },

  async log({ context }) {
    const status = await context.log.summary()
    const text = `${counted(status.records, 'record')}, ${bytesText(status.bytes)}`
    if (status.state === 'degraded')
      return failed(`degraded: ${status.reason ?? 'not written'}`, 'check the disk; pending records are in RAM only')
    const { chain, damaged = 0, lost, check } = status
    const unreadable = check?.unreadable.length ? `${check.unreadable.join(', ')} cannot be read` : ''
    const damage = chain ?? (unreadable || (damaged + lost > 0 ? `${counted(damaged + lost, 'record')} lost` : ''))
    if (damage) return warning(`${text}; ${damage}`, 'os-node log verify names the damage; check the disk')
    return ok(text)
  },

  identity({ context: { config, gateway } }) {
    const { assigned_id, device_id, Client_Core: server } = config.config
    const name = device_id || 'a device without a name'
    const refused = gateway?.status().identity.refused
    if (refused !== undefined)
      return failed(
        `${name} gets no id: the upstream answers ${refused}`,
        'see the status of the upstream: its ids may be used up, or limited for one address',
      )
    if (isAssigned(assigned_id)) return ok(`${name}, id ${assigned_id}`)
    return warning(
      `${name} has no id yet`,
      `a gateway requests one from its upstream; else os-node ensure-id --host ${server.server_host} --port ${server.server_port}`,
    )
  },

  async safe_mode({ context }) {
    const { active, reason, crashes } = await context.safeMode(false)
    if (active) return failed(`safe mode: ${reason}`, 'see the log for the crash, then os-node safe-mode --leave')
    return crashes > 0
      ? warning(`${counted(crashes, 'crash')} in a row`, 'see the log for the reason')
      : ok('no crashes')
  },

  web_access({ context: { config }, machine }) {
    const { auth_enabled, tls } = config.config.web_user
    const { host, port } = config.config.RESOURCES.service_plugins.web_user
    const local = host === 'localhost' || host === '::1' || host.startsWith('127.')
    const token = machine.exists(`${config.dataDir}/token.json`)
    const findings = [
      auth_enabled
        ? ok(token ? 'a token is set' : 'the first start creates a token and shows it once')
        : warning('the page requires no token', 'set web_user.auth_enabled to true'),
    ]
    if (!local && tls === 'off') {
      const text = `the page is open to the network at ${host}:${port} without TLS`
      findings.push(warning(text, 'set web_user.tls to self_signed'))
    }
    return worst(findings, ok(''))
  },

  async database({ context: { config, gateway }, machine }) {
    const { enabled, dialect, driver } = config.config.storage.sql
    if (!enabled) return skipped('storage.sql.enabled is false')
    const storage = gateway?.status().storage
    if (!storage) {
      if (!(dialect in PORTS)) return ok(`${dialect}; opened by the gateway`)
      const { host = '127.0.0.1', port } = driver as ServerDriver
      if (host.startsWith('/')) return skipped(`${dialect} at ${host}: a running gateway says whether it answers`)
      const place = [host, port || PORTS[dialect]!] as const
      const why = await machine.connects(...place)
      return why
        ? failed(
            `${dialect} at ${place.join(':')}: ${why}`,
            'check that the server runs, storage.sql.driver and firewalls',
          )
        : ok(`${dialect} at ${place.join(':')} answers`)
    }
    const { state, lag_records, windows } = storage
    const problem = viewProblem(storage) ?? (state === 'closed' ? 'unknown reason' : undefined)
    const code = storage.code ?? storage.last_error?.code
    if (problem !== undefined)
      return failed(
        `${dialect} is ${state}: ${problem}${storage.missed ? '' : '; the log keeps every record meanwhile'}`,
        code && dialect !== 'sqlite'
          ? ERRORS[code].hint
          : 'os-node status and the log of the gateway say more; check storage.sql.driver.path, then restart the gateway',
      )
    if (windows?.problem)
      return warning(
        `${dialect} is ${state}, its files: ${windows.problem}`,
        'check the disk and storage.sql.driver.path',
      )
    return ok(`${dialect} is ${state}, ${counted(lag_records ?? 0, 'record')} behind the log`)
  },

  core({ context: { config } }) {
    const { core_backend: wanted } = config.config.engine_settings
    const problem = coreProblem('rscore')
    if (problem === null) return ok(wanted)
    return wanted === 'rscore'
      ? warning(`rscore is not available (${problem}): pycore encodes the packets`, 'os-node core pycore')
      : ok(`${wanted}; rscore is not available (${problem})`)
  },
}
