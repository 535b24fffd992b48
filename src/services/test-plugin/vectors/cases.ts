// A case of the vectors: the request, the expected answer, and the comparison.
export interface Case {
  readonly name: string
  readonly op: string
  readonly in: Record<string, unknown>
  readonly out: unknown
}

interface Generator {
  count: number
  input: string
  strategy: string
  then: string[]
}

const record = (value: unknown): Record<string, unknown> => value as Record<string, unknown>

/** The request of a case; a case may describe its steps by a pattern instead of listing them. */
export function requestOf({ op, in: input }: Case): Record<string, unknown> {
  const { generator, ...fields } = input
  if (!generator) return { op, ...input }
  const { count, input: pattern, strategy, then } = generator as Generator
  const made = Array.from({ length: count }, (_, k) => ({ input: pattern.replace('{i}', String(k)), strategy }))
  return { op, ...fields, steps: [...made, ...then.map(text => ({ input: text, strategy: 'DIFF' }))] }
}

function reduced(vector: Case, answer: unknown): unknown {
  const packets = record(answer)?.packets
  if (!vector.in.generator || !Array.isArray(packets)) return answer
  return { ...record(answer), packets_first3_and_last8: [...packets.slice(0, 3), ...packets.slice(-8)] }
}

/** Every key of the vector must exist; an error matches any error unless it is a sentence. */
function matches(want: unknown, got: unknown): boolean {
  if (want === null || typeof want !== 'object')
    return Object.is(want, got) || (typeof want === 'number' && want === got)
  if (got === null || typeof got !== 'object') return false
  if (Array.isArray(want)) {
    return Array.isArray(got) && got.length === want.length && want.every((w, k) => matches(w, got[k]))
  }
  return Object.entries(want).every(([key, w]) => {
    const g = record(got)[key]
    if (key === 'error') return g !== undefined && (typeof w !== 'string' || !/\s/.test(w) || w === g)
    return matches(w, g)
  })
}

/** True if the answer is the expected one. */
export const isRight = (vector: Case, answer: unknown): boolean => matches(vector.out, reduced(vector, answer))
