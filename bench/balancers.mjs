// What the balancers of docs/deploy-upstream.md cost, in microseconds of one core: HAProxy for a packet and its answer over TCP (its own processor
// time), nftables for a packet that it sends on by the hash of its address (against the same packets without it). Namespaces of
// this machine are the network. Needs root, haproxy, nft and ip; without them it is printed as NOT RUN.
import { spawn, spawnSync } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { freeTcp, until } from './fleet.mjs'

const HAPROXY = '/usr/sbin/haproxy'
const NFT = '/usr/sbin/nft'
/** of a packet of four readings, and of its acknowledgement */
const [PACKET, ANSWER] = [Buffer.alloc(37, 1), Buffer.alloc(43, 2)]
const CONNECTIONS = 400
const FLOWS = 250
const PORT = 9999
const TRIES = 3
/** of /proc: ticks of 10 ms */
const TICK_US = 10_000
const tenths = us => Math.round(us * 10) / 10

export async function benchBalancers({ put, problems, wanted }) {
  const missing = [HAPROXY, NFT, '/usr/sbin/ip'].filter(path => !existsSync(path))
  if (process.getuid() !== 0) missing.push('root')
  if (missing.length > 0) return console.log(`balancers/: NOT RUN, needs ${missing.join(', ')}`)
  if (wanted('balancers/haproxy/us_per_packet')) put('balancers/haproxy/us_per_packet', tenths(await throughHaproxy()))
  const key = 'balancers/nftables/us_per_packet'
  if (!wanted(key)) return
  // whatever else runs only adds to it: the least of each counts
  const least = { false: Number.POSITIVE_INFINITY, true: Number.POSITIVE_INFINITY }
  for (let k = 0; k < 2 * TRIES; k++) {
    const balancer = k % 2 === 1
    const { us, arrived, sent } = await overNamespaces(balancer)
    if (arrived < 0.5 * sent) problems.push(`${key}: ${arrived} of ${sent} arrived`)
    least[balancer] = Math.min(least[balancer], us)
  }
  put(key, tenths(least.true - least.false))
}

/** Each connection sends its next packet when the one before is answered. */
async function throughHaproxy(seconds = 8) {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-bench-haproxy-'))
  const server = createServer(socket => {
    let bytes = 0
    socket.setNoDelay().on('data', data => {
      for (bytes += data.length; bytes >= PACKET.length; bytes -= PACKET.length) socket.write(ANSWER)
    })
    socket.on('error', () => undefined)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const port = await freeTcp()
  const conf = join(dir, 'haproxy.cfg')
  const times = ['connect', 'client', 'server'].map(what => `  timeout ${what} 10m\n`).join('')
  writeFileSync(
    conf,
    `global\n  nbthread 1\nlisten os-node\n  bind 127.0.0.1:${port}\n  mode tcp\n  balance source\n${times}  server one 127.0.0.1:${server.address().port}\n`,
  )
  const haproxy = spawn(HAPROXY, ['-f', conf, '-db'], { stdio: ['ignore', 'ignore', 'inherit'] })
  const sockets = []
  let answered = 0
  try {
    await until('HAProxy listens', () => reaches(port))
    for (let k = 0; k < CONNECTIONS; k++) {
      const socket = connect(port, '127.0.0.1').setNoDelay()
      sockets.push(socket)
      await once(socket, 'connect')
      let bytes = 0
      socket.on('data', data => {
        for (bytes += data.length; bytes >= ANSWER.length; bytes -= ANSWER.length) {
          answered++
          socket.write(PACKET)
        }
      })
      socket.write(PACKET)
    }
    const spent = () => {
      const fields = readFileSync(`/proc/${haproxy.pid}/stat`, 'utf8').split(') ')[1].split(' ')
      return (Number(fields[11]) + Number(fields[12])) * TICK_US
    }
    const [from, first] = [spent(), answered]
    await new Promise(resolve => setTimeout(resolve, seconds * 1000))
    return (spent() - from) / (answered - first)
  } finally {
    for (const socket of sockets) socket.destroy()
    server.close()
    haproxy.kill('SIGKILL')
    rmSync(dir, { recursive: true, force: true })
  }
}

const reaches = port =>
  new Promise(resolve => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false))
    socket.once('connect', () => socket.destroy())
  })

function ip(...words) {
  const ran = spawnSync('ip', words, { encoding: 'utf8' })
  if (ran.status !== 0) throw new Error(`ip ${words.join(' ')}: ${ran.stderr}`)
  return ran.stdout
}

/** A sender, a machine between, and three receivers, each in a namespace of its own; with the balancer the machine between has its rule. */
async function overNamespaces(balancer) {
  const [from, between, to] = ['from', 'between', 'to'].map(name => `os-node-bench-${name}`)
  const namespaces = [from, between, to]
  const within = (namespace, ...words) => ip('netns', 'exec', namespace, ...words)
  try {
    for (const namespace of namespaces) ip('netns', 'add', namespace)
    for (const [near, far, net] of [
      [from, between, 1],
      [to, between, 2],
    ]) {
      ip('link', 'add', `v${net}`, 'netns', near, 'type', 'veth', 'peer', 'name', `v${net}`, 'netns', far)
      within(near, 'ip', 'addr', 'add', `10.99.${net}.2/24`, 'dev', `v${net}`)
      within(far, 'ip', 'addr', 'add', `10.99.${net}.1/24`, 'dev', `v${net}`)
      for (const namespace of [near, far]) within(namespace, 'ip', 'link', 'set', `v${net}`, 'up')
      within(near, 'ip', 'route', 'add', 'default', 'via', `10.99.${net}.1`)
    }
    within(between, 'sysctl', '-qw', 'net.ipv4.ip_forward=1')
    // many gateways of one namespace, and three receivers of another
    for (let k = 0; k < FLOWS; k++) within(from, 'ip', 'addr', 'add', `10.98.0.${k + 1}/32`, 'dev', 'v1')
    within(between, 'ip', 'route', 'add', '10.98.0.0/24', 'via', '10.99.1.2')
    for (const k of [3, 4]) within(to, 'ip', 'addr', 'add', `10.99.2.${k}/24`, 'dev', 'v2')
    if (balancer) {
      const rule = `udp dport ${PORT} dnat to jhash ip saddr mod 3 map { 0 : 10.99.2.2, 1 : 10.99.2.3, 2 : 10.99.2.4 }`
      const table = `table ip os_node { chain prerouting { type nat hook prerouting priority -100; ${rule}; }; }`
      const ran = spawnSync('ip', ['netns', 'exec', between, 'nft', '-f', '-'], { input: table, encoding: 'utf8' })
      if (ran.status !== 0) throw new Error(`nft: ${ran.stderr}`)
    }
    const script = fileURLToPath(import.meta.url)
    const receiver = spawn('ip', ['netns', 'exec', to, process.execPath, script, 'receive'], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    await once(receiver.stdout, 'data')
    const target = balancer ? '10.99.1.1' : '10.99.2.2'
    const ran = ip('netns', 'exec', from, process.execPath, script, 'send', target)
    const said = once(receiver.stdout, 'data')
    receiver.kill('SIGTERM')
    return { ...JSON.parse(ran), arrived: Number(await said) }
  } finally {
    for (const namespace of namespaces) spawnSync('ip', ['netns', 'del', namespace])
  }
}

async function send(target, seconds = 4, perMs = 30) {
  const sockets = []
  for (let k = 0; k < FLOWS; k++) {
    const socket = createSocket('udp4')
    await new Promise(resolve => socket.bind(0, `10.98.0.${k + 1}`, resolve))
    sockets.push(socket)
  }
  let sent = 0
  const began = performance.now()
  // the kernel does what follows a packet, up to the receiver's socket, in the time of the process that sends it
  const from = process.cpuUsage()
  for (let now = began; now - began < seconds * 1000; now = performance.now()) {
    for (const due = (now - began) * perMs; sent < due; sent++) sockets[sent % FLOWS].send(PACKET, PORT, target)
    await new Promise(setImmediate)
  }
  const { user, system } = process.cpuUsage(from)
  const us = (user + system) / sent
  for (const socket of sockets) socket.close()
  console.log(JSON.stringify({ us, sent }))
}

function receive() {
  let arrived = 0
  const socket = createSocket('udp4').on('message', () => arrived++)
  socket.bind(PORT, () => {
    socket.setRecvBufferSize(1 << 20)
    console.log('ready')
  })
  process.on('SIGTERM', () =>
    setTimeout(() => {
      console.log(arrived)
      process.exit(0)
    }, 300),
  )
}

if (process.argv[2] === 'send') await send(process.argv[3])
else if (process.argv[2] === 'receive') receive()
