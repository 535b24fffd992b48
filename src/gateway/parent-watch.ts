// The upstream that a gateway started for itself lives as long as that gateway: its stdin ends with it.

/** True in the upstream that a gateway started for itself: it ends with that gateway. */
export const followsParent = (): boolean => process.env.OS_NODE_FOLLOW_PARENT === '1'

/** Settles when the signal aborts, or when the gateway this one belongs to is gone. */
export async function stopped(signal: AbortSignal): Promise<void> {
  const { stdin } = process
  await new Promise<void>(done => {
    if (signal.aborted) done()
    signal.addEventListener('abort', () => done(), { once: true })
    if (followsParent())
      stdin
        .on('end', done)
        .on('error', () => done())
        .resume()
  })
  if (followsParent()) stdin.destroy()
}
