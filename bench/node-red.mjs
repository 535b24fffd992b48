// The alternative that a user would choose: Node-RED with its Modbus nodes on the same registers, each sample as JSON by UDP. It is installed
// from npm into .cache/node-red once, where the network allows it; otherwise the ratios of an earlier run are printed and marked as such.
import { spawn, spawnSync } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { freeTcp } from './fleet.mjs'
import { modbusServer, REGISTERS } from './latency.mjs'
import { usage } from './start.mjs'
import { pause } from './udp/gateway.mjs'

const home = fileURLToPath(new URL('../.cache/node-red', import.meta.url))
const red = join(home, 'node_modules/node-red/red.js')
const PACKAGES = ['node-red@4', 'node-red-contrib-modbus@5.23.3']
/** ms of processor time for one reading at 40 and 400 readings a second and at the highest rate, and that rate, on a quiet machine */
const RECORDED = { 40: 0.14, 400: 0.094, max: 0.052, per_s: 2800 }
/** polls this often: 40 registers at 1 s, at 100 ms, and as fast as it goes */
const RATES = { 40: 1000, 400: 100, max: 2 }
const SETTLE_MS = 10_000
const MEASURE_MS = 20_000

function installed() {
  if (existsSync(red)) return true
  mkdirSync(home, { recursive: true })
  writeFileSync(join(home, 'package.json'), '{"private":true}\n')
  const args = ['install', '--no-audit', '--no-fund', '--ignore-scripts', '--omit=dev', ...PACKAGES]
  spawnSync('npm', args, { cwd: home, stdio: 'ignore', timeout: 600_000 })
  return existsSync(red)
}

const flowOf = (port, out, rate) => [
  { id: 'tab', type: 'tab', label: 'bench' },
  {
    ...{ id: 'client', type: 'modbus-client', name: '', clienttype: 'tcp', tcpHost: '127.0.0.1', tcpPort: port },
    ...{ tcpType: 'DEFAULT', unit_id: 1, commandDelay: 1, clientTimeout: 1000, reconnectOnTimeout: true },
    ...{ reconnectTimeout: 2000, bufferCommands: true, parallelUnitIdsAllowed: true, serialPort: '' },
  },
  {
    ...{ id: 'read', z: 'tab', type: 'modbus-read', name: '', unitid: '1', dataType: 'HoldingRegister', adr: '0' },
    ...{ quantity: String(REGISTERS), rate: String(rate), rateUnit: 'ms', delayOnStart: false, server: 'client' },
    ...{ useIOFile: false, ioFile: '', useIOForPayload: false, emptyMsgOnFail: false, wires: [['make'], []] },
  },
  {
    ...{ id: 'make', z: 'tab', type: 'function', name: '', outputs: 1, wires: [['out']] },
    func: 'const r = {}; msg.payload.forEach((v, k) => { r["r" + k] = v }); return { payload: JSON.stringify({ t: Date.now(), r }) }',
  },
  {
    ...{ id: 'out', z: 'tab', type: 'udp out', name: '', addr: '127.0.0.1', iface: '', port: String(out) },
    ...{ ipv: 'udp4', outport: '', base64: false, multicast: 'false', wires: [] },
  },
]

/** Readings a second and the processor time of one, with that interval between polls. */
async function measure(rate) {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-bench-red-'))
  const modbus = await modbusServer(() => undefined)
  const sink = createSocket('udp4')
  let packets = 0
  sink.on('message', () => packets++)
  await new Promise(resolve => sink.bind(0, '127.0.0.1', resolve))
  writeFileSync(join(dir, 'flows.json'), JSON.stringify(flowOf(modbus.address().port, sink.address().port, rate)))
  const modules = JSON.stringify(join(home, 'node_modules'))
  writeFileSync(
    join(dir, 'settings.js'),
    `module.exports = { uiPort: ${await freeTcp()}, uiHost: '127.0.0.1', flowFile: 'flows.json', nodesDir: [${modules}] }\n`,
  )
  const child = spawn(process.execPath, [red, '--userDir', dir, '--settings', join(dir, 'settings.js')], {
    stdio: 'ignore',
  })
  const ended = new Promise(resolve => child.once('exit', resolve))
  try {
    await pause(SETTLE_MS)
    const before = { ...usage(child.pid), packets }
    await pause(MEASURE_MS)
    const after = { ...usage(child.pid), packets }
    const readings = (after.packets - before.packets) * REGISTERS
    return { ms: (after.cpuMs - before.cpuMs) / readings, per_s: (readings * 1000) / (after.at - before.at) }
  } finally {
    child.kill('SIGKILL')
    await ended
    modbus.close()
    sink.close()
    rmSync(dir, { recursive: true, force: true })
  }
}

/** `put(key, value)` records every figure, `problems` the faults. */
export async function benchNodeRed({ put, problems }) {
  if (!installed()) {
    console.log('peer/node-red: cannot be installed here; processor ms a reading of an earlier run on another machine,')
    console.log(`  Node-RED beside os-node: ${RECORDED[40]} and 0.20 at 40/s, ${RECORDED[400]} and 0.042 at 400/s,`)
    console.log(`  ${RECORDED.max} and 0.039 at the highest rate, which was ${RECORDED.per_s} and 3780 readings/s`)
    return
  }
  for (const [name, rate] of Object.entries(RATES)) {
    const { ms, per_s } = await measure(rate)
    if (!(ms > 0 && ms < 1000)) problems.push(`peer/node-red: nothing came at a poll each ${rate} ms`)
    put(`peer/node-red/cpu_ms_per_reading/${name}`, Math.round(ms * 1000) / 1000)
    if (name === 'max') put('peer/node-red/readings_per_s/max', Math.round(per_s))
  }
}
