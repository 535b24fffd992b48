// V8 lets 64 MB of dead buffers pile up in a thread before it looks; on a board that is too much.

const GARBAGE = 6 * 1024 * 1024

/** `size` without much garbage: where it has grown by more than that, as it is after `collect`. */
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
