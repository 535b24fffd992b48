// The upstream that a gateway started for itself lives as long as that gateway: its stdin ends with it.

/** True in the upstream that a gateway started for itself: it ends with that gateway. */
export const followsParent = (): boolean => process.env.OS_NODE_FOLLOW_PARENT === '1'

/** Settles when the signal aborts, or when the gateway this one belongs to is gone. */
export async function stopped(signal: AbortSignal): Promise<void> {
  // the getter opens a stream: only where it is read
  const stdin = followsParent() ? process.stdin : undefined
  await new Promise<void>(done => {
    if (signal.aborted) done()
    signal.addEventListener('abort', () => done(), { once: true })
    stdin
      ?.on('end', done)
      .on('error', () => done())
      .resume()
  })
  stdin?.destroy()
}
