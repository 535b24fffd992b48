// The machines of commands.test.ts: an upstream, a gateway that runs, and one that ran once and was stopped.
import { request } from 'node:https'
import { join } from 'node:path'
import { after, before } from 'node:test'
import type { TLSSocket } from 'node:tls'
import { answerOf, askGateway } from '../lib/ask'
import { freePort, freeUdpPort, Machine, removeDir, tempDir, until } from '../lib/gateway'

export const dir = tempDir()
let upstream: Machine
export let running: Machine
export let alone: Machine
/** the answer of the page of `run --lan` over TLS, and the names in its certificate */
export let lan: { status: number | undefined; names: string; redirect: Response }
export let ports: { udp: number; web: number; page: number; plain: number }

before(async () => {
  ports = { udp: await freeUdpPort(), web: await freePort(), page: await freePort(), plain: await freePort() }
  upstream = new Machine(join(dir, 'upstream'), 'serve', { device_id: 'upstream' })
  await upstream.start(['--host', '127.0.0.1', '--port', String(ports.udp), '--web-port', String(ports.web)], ports.web)
  const config = {
    device_id: 'gw',
    assigned_id: 7,
    gateway: {
      sources: [{ name: 'load', type: 'uptime' }],
      uplinks: [{ name: 'up', medium: 'UDP', host: '127.0.0.1', port: ports.udp }],
    },
    web_user: { redirect_port: ports.plain },
    RESOURCES: { service_plugins: { web_user: { port: ports.page } } },
    Client_Core: { server_host: '127.0.0.1', server_port: ports.udp },
  }
  alone = new Machine(join(dir, 'alone'), 'run', config)
  // it ran once, so that a log exists, and on the network
  await alone.start(['--lan'])
  const redirect = await fetch(`http://127.0.0.1:${ports.plain}/api/x`, { redirect: 'manual' })
  lan = await new Promise((resolve, reject) => {
    const url = `https://127.0.0.1:${ports.page}/health`
    const asked = request(url, { rejectUnauthorized: false }, answer => {
      const { subjectaltname } = (answer.socket as TLSSocket).getPeerCertificate()
      answer.resume().once('end', () => resolve({ status: answer.statusCode, names: String(subjectaltname), redirect }))
    })
    asked.once('error', reject).end()
  })
  await alone.stop()
  // it may have measured the cores until then, or not
  removeDir(join(alone.dataDir, 'cores.json'))
  running = new Machine(join(dir, 'running'), 'run', config)
  await running.start([], ports.page)
  // its first packet shows that the upstream acknowledges; an earlier reading may be kept for later
  await until('the uplink delivers', async () => (await answerOf(running, 'status')).uplinks.up.acked > 0)
})

after(async () => {
  await running?.stop()
  await upstream?.stop()
  removeDir(dir)
})

/** Through the gateway by the command line in this process (later tests use processes for it too), without one as a process. */
export const say = (machine: Machine, ...line: string[]) =>
  machine === running ? askGateway(running, ...line) : machine.run(...line)
