// Server-sent events, read with fetch because EventSource cannot send the token's header. The stream ends with an
// ApiError or silently; the caller decides whether to open it again.
import { ApiError, currentToken, deadline, failure, open } from './api'
import { type Event, EventParser } from './eventparser'

/** a stream may be quiet for long; only its start has a time limit */
const START_MS = 8_000

/** Reads until the stream ends. Throws ApiError: 404 if the gateway has no events, 0 if the connection was lost. */
export async function follow(path: string, signal: AbortSignal, take: (event: Event) => void): Promise<void> {
  const sent = currentToken()
  const start = deadline(START_MS, signal)
  const answer = await open('GET', path, { signal: start.signal })
  if (!answer.ok) throw await failure(answer, sent)
  start.done()
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader()
  const parser = new EventParser()
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      for (const event of parser.push(value)) take(event)
    }
  } catch {
    throw new ApiError(0, 'UNREACHABLE', 'the stream of events ended')
  }
}
