// demo: a gateway in a temporary folder that is removed at the end: the sensors of this machine, a simulated
// greenhouse, a local upstream, and the page. It does not touch a running gateway; if the usual port of the
// page is in use, any free one is used. A reading that cannot be submitted (no id yet) is skipped.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { asOsError } from '../../lib/errors'
import type { Reading } from '../../pipeline/fact'
import type { CommandContext, StartedGateway } from '../context'
import { realMachine } from '../doctor/machine'
import type { OptionValues, Verb } from '../verb'

const WEB_PORT = 8765
/** the simulated day takes ten minutes, so that a user can watch it */
const DAY_S = 600

/** The greenhouse at a time: warm at noon, damp at night, with a vent that opens when it is hot. */
export function greenhouse(atS: number): Reading[] {
  const sun = Math.sin((2 * Math.PI * atS) / DAY_S)
  const ripple = Math.sin(atS / 7)
  const celsius = 21 + 8 * sun + 0.3 * ripple
  const round = (value: number): number => Math.round(value * 100) / 100
  return [
    ['air', celsius > 28 ? 'ALARM' : 'OK', round(celsius), 'Cel'],
    ['humidity', 'OK', round(62 - 20 * sun + ripple), '%'],
    ['pressure', 'OK', round(1013 + 4 * Math.sin(atS / 90)), 'hPa'],
    ['light', 'OK', round(Math.max(0, 40_000 * sun)), 'lx'],
    ['vent', 'OK', celsius > 25 ? 1 : 0, '{1}'],
  ]
}

async function feed(context: CommandContext, { transmit }: StartedGateway, intervalMs: number, end: AbortSignal) {
  const printed = new Set<string>()
  while (!end.aborted) {
    await transmit?.({ sensors: greenhouse(Date.now() / 1000), device_id: 'greenhouse' }).catch(thrown => {
      const { code, message } = asOsError(thrown)
      // the upstream assigns the id within the first seconds
      if (code !== 'NO_ASSIGNED_ID' && !printed.has(code)) context.logger.warn(`demo: ${message}`)
      printed.add(code)
    })
    await sleep(intervalMs, undefined, { signal: end }).catch(() => undefined) // aborted: the loop condition ends it
  }
}

interface DemoOptions {
  interval: number
  duration: number
  'web-host': string
  'web-port'?: number
}

async function run(context: CommandContext, options: OptionValues & DemoOptions): Promise<{ exitCode: number }> {
  const { 'web-host': host, 'web-port': port } = options
  const taken = port === undefined && (await realMachine().listen('tcp', host, WEB_PORT)) !== undefined
  const started = await context.startGateway('run', { host, webPort: port ?? (taken ? 0 : WEB_PORT) })
  const { banner = '', info = {} } = started
  context.print({ ok: true, role: 'demo', data_dir: context.config.dataDir, ...info }, banner)
  const over = new AbortController()
  const durationMs = options.duration * 1000
  const timer = durationMs > 0 ? setTimeout(() => started.stop?.(), durationMs) : undefined
  if (options['open-browser']) {
    const link = String(info.login_url ?? info.url)
    if (!(await context.openUrl?.(link)))
      context.logger.warn('no browser could be started; open the sign-in link above')
  }
  const feeding = feed(context, started, options.interval * 1000, over.signal)
  try {
    return { exitCode: await started.done }
  } finally {
    clearTimeout(timer)
    over.abort()
    await feeding
  }
}

export const demo: Verb<Record<string, unknown>, DemoOptions> = {
  name: 'demo',
  summary: 'run a temporary gateway with simulated readings',
  description: 'Its data directory is temporary and removed at the end; that of a running gateway is not touched.',
  examples: ['os-node demo --open-browser', 'os-node demo --duration 60 --web-port 9000'],
  options: {
    'open-browser': { type: 'boolean', help: 'open the page in a browser, signed in' },
    interval: { type: 'number', value: 'SECONDS', min: 0.1, max: 3600, default: 2, help: 'seconds between readings' },
    duration: { type: 'number', value: 'SECONDS', min: 0, max: 86_400, default: 0, help: '0: no limit' },
    'web-host': { type: 'string', value: 'HOST', default: '127.0.0.1', help: 'address of the page' },
    'web-port': {
      type: 'integer',
      value: 'N',
      min: 0,
      max: 65_535,
      help: `port of the page (else ${WEB_PORT}, or a free one)`,
    },
  },
  where: 'local',
  starts: true,
  changes: true,
  place: () => {
    const dir = mkdtempSync(join(tmpdir(), 'os-node-demo-'))
    writeFileSync(join(dir, 'Config.json'), `${JSON.stringify({ device_id: 'demo' }, null, 2)}\n`)
    return {
      config: join(dir, 'Config.json'),
      dataDir: join(dir, 'data'),
      remove: () => rmSync(dir, { recursive: true, force: true }),
    }
  },
  run,
}
