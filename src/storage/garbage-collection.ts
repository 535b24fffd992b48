// V8 collects up to 64 MB of dead buffers in a thread before a garbage collection; that is too much on a board.
import { getHeapStatistics } from 'node:v8'

const GARBAGE = 6 * 1024 * 1024

/** Bytes of this thread: its objects, its buffers, SQLite's memory. */
export function threadBytes(): number {
  const { used_heap_size: heapUsed, external_memory: external } = getHeapStatistics()
  return heapUsed + external
}

/** `size` without most of the garbage: calls `collect` after the size has grown by more than that. */
export function tidied(size: () => number, collect: () => void): () => number {
  let least = Number.POSITIVE_INFINITY
  return () => {
    least = Math.min(least, size())
    if (size() > least + GARBAGE) {
      collect()
      least = size()
    }
    return size()
  }
}
