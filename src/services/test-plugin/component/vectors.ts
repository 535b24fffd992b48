// The vectors built into the program: packed by the build from the test data, unpacked at first use.
import packed from 'self-test-vectors'
import type { PluginCheck } from '../checks'
import { unpack } from '../unpack'
import { answer } from '../vectors/answer'
import { type Case, isRight, requestOf } from '../vectors/cases'
import type { Lib } from '../vectors/common'

/** Cases by group. */
export const builtInCases = (): Record<string, Case[]> => unpack(packed) as Record<string, Case[]>

export function* vectorChecks(
  lib: Lib,
  groups: Record<string, readonly Case[]> = builtInCases(),
): Generator<PluginCheck> {
  for (const [group, cases] of Object.entries(groups))
    for (const vector of cases)
      yield [
        `${group}/${vector.name}`,
        () => {
          const got = answer(lib, requestOf(vector) as never)
          if (!isRight(vector, got)) throw new Error(`want ${brief(vector.out)}, got ${brief(got)}`)
        },
      ]
}

const brief = (value: unknown): string => JSON.stringify(value).slice(0, 160)
