// ensure-id and time-sync: request an id and the time from the server. Host and port default to those of Client_Core.
// No answer is a result (ok false, server_time null) with exit 1, as the specification requires.
import type { CommandContext, CommandNode } from '../context'
import type { OptionSpec, OptionValues, Verb } from '../verb'

const server = (seconds: number): Record<string, OptionSpec> => ({
  host: { type: 'string', value: 'HOST', help: 'server (else Client_Core.server_host)' },
  port: { type: 'integer', value: 'PORT', min: 1, max: 65535, help: 'its UDP port (else Client_Core.server_port)' },
  timeout: { type: 'number', value: 'SECONDS', min: 0.1, max: 600, default: seconds, help: 'wait at most this long' },
})

const address = ({ config }: CommandContext, options: OptionValues): [host: string, port: number] => [
  String(options.host ?? config.get('Client_Core.server_host')),
  Number(options.port ?? config.get('Client_Core.server_port')),
]

const why = ({ lastError }: CommandNode): Record<string, unknown> =>
  lastError
    ? { error: lastError.message, code: lastError.code, hint: lastError.hint }
    : { error: 'the server did not answer' }

export const ensureId: Verb = {
  name: 'ensure-id',
  summary: 'get a device id from the server and keep it in Config.json',
  examples: ['os-node ensure-id --host 192.0.2.10 --port 8080', 'os-node ensure-id 192.0.2.10 8080'],
  options: server(5),
  operands: ['host', 'port'],
  where: 'either',
  changes: true,
  async run(context, options) {
    const node = await context.node()
    const [host, port] = address(context, options)
    const ok = await node.ensureId(host, port, null, Number(options.timeout))
    return { value: { ok, assigned_id: node.assignedId, ...(!ok && why(node)) }, exitCode: ok ? 0 : 1 }
  },
  text: ({ assigned_id }) => `this device has the id ${assigned_id}`,
}

export const timeSync: Verb = {
  name: 'time-sync',
  summary: 'get the time from the server',
  examples: ['os-node time-sync --host 192.0.2.10 --port 8080'],
  options: server(3),
  operands: ['host', 'port'],
  where: 'either',
  async run(context, options) {
    const [host, port] = address(context, options)
    const node = await context.node()
    const server_time = await node.ensureTime(host, port, Number(options.timeout))
    const failed = server_time === null
    return { value: { server_time, ...(failed && why(node)) }, exitCode: failed ? 1 : 0 }
  },
  text: ({ server_time }) => `${server_time} (${new Date(Number(server_time) * 1000).toISOString()})`,
}
