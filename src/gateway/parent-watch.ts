// An upstream started by a gateway ends with that gateway: its stdin then closes.

/** True in an upstream that a gateway started. */
export const followsParent = (): boolean => process.env.OS_NODE_FOLLOW_PARENT === '1'

/** Settles when the signal aborts, or when the parent gateway has ended. */
export async function stopped(signal: AbortSignal): Promise<void> {
  // the getter opens a stream: use it only if needed
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
