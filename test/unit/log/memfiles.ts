// A file system in RAM that knows what a power cut would leave: bytes written but not synced, names created but not
// synced with their folder. Every call passes a gate, where a test makes it fail or cuts the power. As on Linux, bytes whose sync failed count as
// clean: a later sync succeeds without them, unless they were written again.
import { dirname } from 'node:path'
import type { Files } from '../../../src/lib/files'

interface Node {
  data: Buffer
  /** what certainly survives a power cut */
  durable: Buffer
  /** where the hole begins that a longer size left; absent: at the end */
  written?: number | undefined
  /** range whose sync failed: no later sync writes it */
  lost?: { from: number; to: number } | undefined
}

const writtenOf = ({ data, written }: Node): number => written ?? data.length

/** What of a range is not in `[from, to)`; a hole in its middle counts as in the range. */
function without(range: Node['lost'], from: number, to: number): Node['lost'] {
  if (!range) return undefined
  const left = { from: from <= range.from ? Math.max(range.from, to) : range.from, to: range.to }
  if (to >= range.to) left.to = Math.min(range.to, from)
  return left.from < left.to ? left : undefined
}

function syncFailed(node: Node): void {
  const { data, durable } = node
  let from = 0
  while (from < durable.length && data[from] === durable[from]) from++
  if (from < data.length) node.lost = { from, to: data.length }
}

function synced(node: Node, data: Buffer): void {
  const next = Buffer.from(data)
  if (node.lost) {
    next.fill(0, node.lost.from, node.lost.to)
    node.durable.copy(next, node.lost.from, node.lost.from, Math.min(node.lost.to, next.length))
  }
  node.durable = next
}

/** What a power cut leaves of `data`; see afterPowerCut. */
function remains(data: Buffer, durable: Buffer, kept: number, zeros: boolean): Buffer {
  const left = (length: number): Buffer =>
    Buffer.concat([durable, Buffer.alloc(length)]).subarray(0, Math.max(length, durable.length))
  if (zeros) return left(durable.length + Math.floor(Math.max(0, data.length - durable.length) * kept))
  if (kept === 1) return Buffer.from(data)
  if (data.length < durable.length) return left(0)
  let from = 0
  while (from < durable.length && data[from] === durable[from]) from++
  let to = data.length
  while (to > from && data[to - 1] === (durable[to - 1] ?? 0)) to--
  const until = from + Math.floor((to - from) * kept)
  const bytes = left(until)
  data.copy(bytes, from, from, until)
  return bytes
}

export type Operation =
  | 'open'
  | 'write'
  | 'sync'
  | 'truncate'
  | 'resize'
  | 'rename'
  | 'remove'
  | 'syncDir'
  | 'mkdir'
  | 'read'
  | 'close'

export const systemError = (code: string): Error => Object.assign(new Error(`${code}: injected`), { code })

export class PowerCut extends Error {}

export class MemFiles implements Files {
  files = new Map<string, Node>()
  /** names as they are on the medium */
  durableNames = new Map<string, Node>()
  operations = 0
  syncs = 0
  syncsAtOnce = 0
  /** throws to make an operation fail; `bytes` is the data of a write */
  gate: (operation: Operation, path: string, bytes?: number) => void = () => undefined
  /**
   * The first change from operation `point` on fails, once: half of a write is done. Returns whether that has happened.
   */
  refuseOnce(point: number, code: string): () => boolean {
    let refused = false
    this.tear = 0.5
    this.gate = operation => {
      if (refused || operation === 'read' || operation === 'close' || this.operations < point) return
      refused = true
      throw systemError(code)
    }
    return () => refused
  }
  /** how much of a write happens before the gate's error, for torn writes: 0..1 */
  tear = 0
  /** sync settles when this promise does */
  slow: () => Promise<void> = () => Promise.resolve()
  #open = new Map<number, { path: string; node: Node; at: number; append: boolean }>()
  #fd = 3
  #syncing = 0

  /** open files */
  get opened(): number {
    return this.#open.size
  }

  #pass(operation: Operation, path: string, bytes?: number): void {
    if (operation !== 'read' && operation !== 'close') this.operations++
    this.gate(operation, path, bytes)
  }
  #node(path: string): Node {
    const node = this.files.get(path)
    if (!node) throw systemError('ENOENT')
    return node
  }
  mkdir(path: string): void {
    this.#pass('mkdir', path)
  }
  list(path: string): string[] {
    this.gate('read', path)
    if (this.files.has(path)) throw systemError('ENOTDIR')
    return [...this.files.keys()].filter(name => dirname(name) === path).map(name => name.slice(path.length + 1))
  }
  exists(path: string): boolean {
    return this.files.has(path) || [...this.files.keys()].some(name => name.startsWith(`${path}/`))
  }
  size(path: string): number {
    return this.#node(path).data.length
  }
  read(path: string): Buffer {
    this.gate('read', path)
    return Buffer.from(this.#node(path).data)
  }
  readAt(path: string, offset: number, length: number): Buffer {
    this.gate('read', path)
    return Buffer.from(this.#node(path).data.subarray(offset, offset + length))
  }
  open(path: string, flags: 'a' | 'w' | 'r+'): number {
    this.#pass('open', path)
    let node = this.files.get(path)
    if (!node) {
      node = { data: Buffer.alloc(0), durable: Buffer.alloc(0) }
      this.files.set(path, node)
    }
    if (flags === 'w') Object.assign(node, { data: Buffer.alloc(0), written: 0, lost: undefined })
    const fd = this.#fd++
    this.#open.set(fd, { path, node, at: 0, append: flags === 'a' })
    return fd
  }
  write(fd: number, data: Uint8Array, offset = 0, length = data.length - offset): void {
    const file = this.#open.get(fd)!
    const put = (size: number): void => {
      const at = file.append ? file.node.data.length : file.at
      const next = Buffer.alloc(Math.max(file.node.data.length, at + size))
      file.node.data.copy(next)
      next.set(data.subarray(offset, offset + size), at)
      file.node.data = next
      file.node.written = Math.max(writtenOf(file.node), at + size)
      file.node.lost = without(file.node.lost, at, at + size)
      file.at = at + size
    }
    try {
      this.#pass('write', file.path, length)
    } catch (error) {
      put(Math.floor(length * this.tear))
      throw error
    }
    put(length)
  }
  async sync(fd: number): Promise<void> {
    const file = this.#open.get(fd)!
    this.#syncing++
    this.syncsAtOnce = Math.max(this.syncsAtOnce, this.#syncing)
    const data = file.node.data
    try {
      await this.slow()
      this.#passSync(file)
      synced(file.node, data)
    } finally {
      this.#syncing--
    }
  }
  syncNow(fd: number): void {
    const file = this.#open.get(fd)!
    this.#passSync(file)
    synced(file.node, file.node.data)
  }
  #passSync({ path, node }: { path: string; node: Node }): void {
    try {
      this.#pass('sync', path)
    } catch (error) {
      if (!(error instanceof PowerCut)) syncFailed(node)
      throw error
    }
    this.syncs++
  }
  close(fd: number): void {
    this.#pass('close', '')
    this.#open.delete(fd)
  }
  truncate(path: string, length: number): void {
    this.#pass('truncate', path)
    this.#resize(this.#node(path), length)
  }
  resize(fd: number, length: number): void {
    const { path, node } = this.#open.get(fd)!
    this.#pass('resize', path)
    this.#resize(node, length)
  }
  #resize(node: Node, length: number): void {
    const data = Buffer.alloc(length)
    node.written = Math.min(writtenOf(node), length)
    node.data.copy(data)
    node.data = data
    node.lost = without(node.lost, length, Number.POSITIVE_INFINITY)
  }
  rename(from: string, to: string): void {
    this.#pass('rename', to)
    this.files.set(to, this.#node(from))
    this.files.delete(from)
  }
  remove(path: string): void {
    this.#pass('remove', path)
    this.files.delete(path)
  }
  syncDir(path: string): void {
    this.#pass('syncDir', path)
    const inside = (name: string): boolean => dirname(name) === path
    for (const name of [...this.durableNames.keys()]) if (inside(name)) this.durableNames.delete(name)
    for (const [name, node] of this.files) if (inside(name)) this.durableNames.set(name, node)
  }

  /** Names that are gone, not moved, since their folder was synced. */
  get removed(): string[] {
    const there = new Set(this.files.values())
    return [...this.durableNames]
      .filter(([name, node]) => !this.files.has(name) && !there.has(node))
      .map(([name]) => name)
  }

  /**
   * What the medium has after a power cut: names of the last folder syncs; the share `kept` of the unsynced bytes, from the
   * first one on. A file may have its new length with `zeros` in their place. A name created, moved or removed without such
   * a sync, and a truncation, survives if `survives` says so of the name: one may, while an earlier one does not.
   */
  afterPowerCut(kept = 0, zeros = false, survives: (name: string) => boolean = () => kept > 0): MemFiles {
    const left = new (this.constructor as typeof MemFiles)()
    const names = new Map([...this.durableNames])
    for (const name of this.removed) if (survives(name)) names.delete(name)
    for (const [name, node] of this.files) if (survives(name)) names.set(name, node)
    for (const [name, { data, durable }] of names) {
      const truncated = data.length < durable.length && durable.subarray(0, data.length).equals(data)
      const bytes = truncated && survives(name) ? Buffer.from(data) : remains(data, durable, kept, zeros)
      const node = { data: bytes, durable: Buffer.from(bytes) }
      left.files.set(name, node)
      left.durableNames.set(name, node)
    }
    return left
  }

  /** The same content in a new object, for a test that damages it. */
  copy(): MemFiles {
    const left = new MemFiles()
    for (const [name, { data, written }] of this.files) {
      const node = { data: Buffer.from(data), durable: Buffer.from(data), written }
      left.files.set(name, node)
      left.durableNames.set(name, node)
    }
    return left
  }

  get bytes(): number {
    return [...this.files.values()].reduce((sum, node) => sum + writtenOf(node), 0)
  }

  /** bytes of a file without the hole at its end */
  written(path: string): number {
    return writtenOf(this.#node(path))
  }

  segments(dir: string): string[] {
    return this.list(dir)
      .filter(name => name.endsWith('.seg'))
      .sort()
  }
}
