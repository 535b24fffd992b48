// Parses the texts of /proc and /sys: pure functions, no I/O. A text in an undocumented format gives null or skips the
// entry; nothing throws.

/** A sysfs file with one number; null if it contains anything else. */
export function oneNumber(text: string): number | null {
  const trimmed = text.trim()
  if (trimmed === '') return null
  const value = Number(trimmed)
  return Number.isFinite(value) ? value : null
}

export interface CpuTicks {
  busy: number
  total: number
}

/** The `cpu` line of /proc/stat in clock ticks. guest ticks are in user already; iowait counts as idle. */
export function parseCpu(stat: string): CpuTicks | null {
  const line = /^cpu\s+(.+)$/m.exec(stat)?.[1]
  if (line === undefined) return null
  const ticks = line.trim().split(/\s+/).map(Number)
  if (ticks.length < 4 || !ticks.every(Number.isFinite)) return null
  const total = ticks.slice(0, 8).reduce((sum, n) => sum + n, 0)
  return { total, busy: total - ticks[3]! - (ticks[4] ?? 0) }
}

/** Busy per cent between two samples; null if no time passed. The kernel's iowait can decrease, so the result is clamped. */
export function busyPercent(before: CpuTicks, now: CpuTicks): number | null {
  const total = now.total - before.total
  if (total <= 0) return null
  return Math.min(100, Math.max(0, percent(now.busy - before.busy, total)))
}

/** The three averages of /proc/loadavg: 1, 5 and 15 minutes. */
export function parseLoad(text: string): [number, number, number] | null {
  const [one, five, fifteen] = text.trim().split(/\s+/).slice(0, 3).map(oneNumber)
  return one == null || five == null || fifteen == null ? null : [one, five, fifteen]
}

/** Seconds since boot from /proc/uptime. */
export const parseUptime = (text: string): number | null => oneNumber(text.trim().split(/\s+/)[0] ?? '')

interface Memory {
  total: number
  available: number
  swapTotal: number
  swapFree: number
}

/** /proc/meminfo in bytes. Kernels before 3.14 have no MemAvailable; it is then estimated from free memory and caches. */
export function parseMemory(text: string): Memory | null {
  const bytes = new Map<string, number>()
  for (const [, key, amount] of text.matchAll(/^(\w+):\s+(\d+)(?: kB)?$/gm)) bytes.set(key!, Number(amount) * 1024)
  const total = bytes.get('MemTotal')
  if (total === undefined || total === 0) return null
  const estimate = (bytes.get('MemFree') ?? 0) + (bytes.get('Buffers') ?? 0) + (bytes.get('Cached') ?? 0)
  return {
    total,
    available: bytes.get('MemAvailable') ?? estimate,
    swapTotal: bytes.get('SwapTotal') ?? 0,
    swapFree: bytes.get('SwapFree') ?? 0,
  }
}

export interface NetCounters {
  rxBytes: number
  rxPackets: number
  txBytes: number
  txPackets: number
  errors: number
  drops: number
}

/** /proc/net/dev by interface. The name may touch the first number (`eth0:123`). */
export function parseNetDev(text: string): Map<string, NetCounters> {
  const found = new Map<string, NetCounters>()
  for (const line of text.split('\n')) {
    const colon = line.lastIndexOf(':')
    if (colon < 0) continue
    const n = line
      .slice(colon + 1)
      .trim()
      .split(/\s+/)
      .map(Number)
    if (n.length < 12 || !n.every(Number.isFinite)) continue
    found.set(line.slice(0, colon).trim(), {
      rxBytes: n[0]!,
      rxPackets: n[1]!,
      txBytes: n[8]!,
      txPackets: n[9]!,
      errors: n[2]! + n[10]!,
      drops: n[3]! + n[11]!,
    })
  }
  return found
}

/** Interfaces that only mirror or tunnel inside this machine; their traffic is counted on the physical ones. */
const VIRTUAL =
  /^(lo|veth|docker|br-|virbr|vnet|lxc|lxdbr|cni|flannel|cali|kube-|nodelocaldns|podman|ifb|dummy|sit|gre|gretap|erspan|ip6tnl|ip6gre|ip_vti|ip6_vti|tunl|teql|nlmon|vcan|vxcan|can|bonding_masters)/

export const isVirtualInterface = (name: string): boolean => VIRTUAL.test(name)

/** `eth2` before `eth10`, the same on every machine. */
export function naturalOrder(a: string, b: string): number {
  const as = a.match(/\d+|\D+/g) ?? []
  const bs = b.match(/\d+|\D+/g) ?? []
  for (let k = 0; k < Math.min(as.length, bs.length); k++) {
    const difference = Number(as[k]) - Number(bs[k])
    if (difference !== 0 && !Number.isNaN(difference)) return difference
    if (Number.isNaN(difference) && as[k] !== bs[k]) return as[k]! < bs[k]! ? -1 : 1
  }
  return as.length - bs.length || (a < b ? -1 : a > b ? 1 : 0)
}

/** A share in hundredths of a percent: more digits are noise, and those of a tiny share could not be sent. */
export const percent = (part: number, whole: number): number => Math.round((part / whole) * 10_000) / 100
