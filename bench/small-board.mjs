// Small boards, imitated by control groups: a gateway limited to 15 % of a processor and 512 MB reads 500 readings a second (a Modbus TCP
// source of 50 registers, ten times a second) and delivers them to an upstream outside; and a gateway with its defaults and its local
// upstream, in 128 MB: 60 seconds, or OS_NODE_BOARD_SECONDS (3600 by hand). Needs root and writable control groups; otherwise it says so.
import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { modbusServer } from './latency.mjs'
import { answer, freePort, Gateway, pause } from './udp/gateway.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const GROUPS = '/sys/fs/cgroup'
const NAME = `os-node-bench-${process.pid}`
const MB = 2 ** 20
/** as many as fit one packet: each read is one fact */
const REGISTERS = 50
const INTERVAL_MS = 100
const READINGS_PER_S = (1000 / INTERVAL_MS) * REGISTERS
const SETTLE_MS = 20_000
const MEASURE_MS = 60_000
/** resolution of the lag: a finer one would cost the small processor more than the gateway does */
const LAG_RESOLUTION_MS = 10
/** A short period: a slow processor is slow, it does not stop for 85 ms of 100. */
const CPU_PERIOD_US = 10_000

/** A control group of version 2 or 1: its folders, and the file with its peak memory. Throws where it cannot be created. */
function group({ memory, cpu }) {
  const unified = existsSync(join(GROUPS, 'cgroup.controllers'))
  const make = (controller, settings) => {
    const folder = join(GROUPS, unified ? '' : controller, NAME)
    mkdirSync(folder, { recursive: true })
    for (const [file, value] of settings) writeFileSync(join(folder, file), String(value))
    return folder
  }
  if (unified) {
    writeFileSync(join(GROUPS, 'cgroup.subtree_control'), '+memory +cpu')
    const quota = cpu ? [['cpu.max', `${cpu * CPU_PERIOD_US} ${CPU_PERIOD_US}`]] : []
    const folder = make('', [['memory.max', memory], ...quota])
    return { folders: [folder], peak: join(folder, 'memory.peak') }
  }
  const ofMemory = make('memory', [['memory.limit_in_bytes', memory]])
  const quota = [
    ['cpu.cfs_period_us', CPU_PERIOD_US],
    ['cpu.cfs_quota_us', cpu * CPU_PERIOD_US],
  ]
  return {
    folders: [ofMemory, ...(cpu ? [make('cpu', quota)] : [])],
    peak: join(ofMemory, 'memory.max_usage_in_bytes'),
  }
}

/** Starts a gateway in the groups, in its own folder. */
function start(folders, config) {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-bench-board-'))
  const path = join(dir, 'Config.json')
  writeFileSync(path, JSON.stringify({ web_user: { auth_enabled: false }, ...config }))
  const enter = [...folders.map(folder => `echo $$ > ${folder}/cgroup.procs`), 'exec "$@"'].join(' && ')
  const node = [process.execPath, '--require', join(root, 'bench/udp/watch.cjs'), join(root, 'dist/os-node.js')]
  const args = ['run', '--config', path, '--data-dir', join(dir, 'data'), '--port', '0']
  const child = spawn('bash', ['-c', enter, '-', ...node, ...args], {
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    env: { ...process.env, OS_NODE_CONFIG: '', BENCH_LAG_MS: String(LAG_RESOLUTION_MS) },
  })
  child.stderr.resume()
  const ended = new Promise(resolve => child.once('exit', resolve))
  const stop = async () => {
    child.kill('SIGTERM')
    await ended
    rmSync(dir, { recursive: true, force: true })
  }
  return { child, stop }
}

/** Removes the groups once their last process has exited. */
async function remove(folders) {
  for (const folder of folders)
    for (let tries = 0; tries < 100; tries++)
      try {
        rmdirSync(folder)
        break
      } catch {
        await pause(100)
      }
}

async function slowProcessor({ put, mark, problems }) {
  const { folders } = group({ memory: 512 * MB, cpu: 0.15 })
  const port = await freePort()
  const upstream = new Gateway(port, {})
  let reads = 0
  const modbus = await modbusServer(() => reads++)
  await upstream.up()
  const registers = Array.from({ length: REGISTERS }, (_, k) => ({ id: `r${k}`, address: k, unit: 'V' }))
  const where = { host: '127.0.0.1', port: modbus.address().port, interval_ms: INTERVAL_MS }
  const board = start(folders, {
    assigned_id: 7,
    device_id: 'BOARD',
    gateway: {
      time: { hold_unsynced_s: 0 },
      sources: [{ name: 'plc', type: 'modbus_tcp', ...where, registers }],
      uplinks: [{ name: 'up', medium: 'UDP', host: '127.0.0.1', port }],
    },
  })
  try {
    await pause(SETTLE_MS)
    await answer(board.child, 'reset')
    const before = reads
    await pause(MEASURE_MS)
    const polled = reads - before
    const { p99, max, cpu_s, rss_mb } = await answer(board.child, 'tell')
    mark('small_board/readings_per_s', Math.round((polled * REGISTERS * 1000) / MEASURE_MS), `≥ ${READINGS_PER_S}`)
    put('small_board/lag_ms/p99', Math.round(p99 - LAG_RESOLUTION_MS))
    mark('small_board/lag_ms/max', Math.round(max - LAG_RESOLUTION_MS), '≤ 100')
    put('small_board/cpu_percent', Math.round((cpu_s * 100_000) / MEASURE_MS))
    put('small_board/rss_mb', rss_mb)
    // a stop delivers what was read; one read may be in progress
    await board.stop()
    const { facts } = await upstream.settled()
    if (Math.abs(facts - reads) > 1) problems.push(`small_board: ${reads} reads, and ${facts} came to the upstream`)
  } finally {
    await board.stop()
    await upstream.stop()
    modbus.close()
    await remove(folders)
  }
}

async function smallMemory({ put, problems }) {
  const seconds = Number(process.env.OS_NODE_BOARD_SECONDS ?? 60)
  const { folders, peak } = group({ memory: 128 * MB })
  const board = start(folders, {})
  try {
    await pause(seconds * 1000)
    const how = board.child.exitCode ?? board.child.signalCode
    if (how !== null) problems.push(`small_board/128mb: the gateway ended with ${how}`)
    put('small_board/128mb/seconds', seconds)
    put('small_board/128mb/peak_mb', Math.round(Number(readFileSync(peak, 'utf8')) / MB))
  } finally {
    await board.stop()
    await remove(folders)
  }
}

export async function benchSmallBoard(report) {
  try {
    await remove(group({ memory: 512 * MB, cpu: 0.15 }).folders)
  } catch (error) {
    console.log(`small_board/: not measured, no control group can be made: ${error.message}`)
    return
  }
  await slowProcessor(report)
  await smallMemory(report)
}
