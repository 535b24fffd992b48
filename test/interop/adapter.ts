// Answers one request of the vectors: the operations of the self-test (src/services/test-plugin/vectors), and complete
// nodes.
import type * as Library from '../../src/index'
import { OPS, answer as one } from '../../src/services/test-plugin/vectors/answer'
import type { Ops, Request } from '../../src/services/test-plugin/vectors/common'
import { netOps } from './ops/net'

const ALL: Ops<typeof Library> = { ...OPS, ...netOps }

/** One request → one answer; never throws. */
export const answer = (lib: typeof Library, request: Request): unknown => one(lib, request, ALL)
