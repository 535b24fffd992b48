// Whether a gateway does its work, for the trial of a new version.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { works } from '../../../../src/gateway/guard/trial-health'

type Status = Parameters<typeof works>[0]

/** A status whose only uplink has these counters. */
const withUplink = (uplink: object, state = 'up'): Status =>
  ({
    log: { state: 'ok' },
    forwarding: { cursor: 70 },
    links: { north: { state } },
    uplinks: { north: { acked: 0, sent: 0, backlog: 3, delivery: 'acked', ...uplink } },
  }) as unknown as Status

test('a gateway works when an upstream acknowledged a packet since the start, its log is written, and it is not in safe mode', () => {
  assert.equal(works(withUplink({})), false, 'nothing was acknowledged')
  const status = withUplink({ acked: 1 })
  assert.equal(works(status), true)
  assert.equal(works({ ...status, safe_mode: 'five crashes' }), false)
  assert.equal(works({ ...status, log: { ...status.log, state: 'degraded' } }), false)
  const { forwarding: _, ...alone } = status
  assert.equal(works({ ...alone, uplinks: {} }), true, 'a node without uplinks')
})

test('facts that are refused or too large, or packets without an acknowledgement, are no answer of an upstream', () => {
  assert.equal(works(withUplink({ refused: 40, cursor: 100 })), false)
  assert.equal(works(withUplink({ sent: 5, delivery: 'silent' })), false)
})

test('an upstream that never acknowledges counts once a packet was sent', () => {
  assert.equal(works(withUplink({ delivery: 'best_effort', acked: 0 })), false)
  assert.equal(works(withUplink({ delivery: 'best_effort', sent: 1 })), true)
})

test('a gateway that has nothing to send works once its upstream answers', () => {
  assert.equal(works(withUplink({ backlog: 0 })), true)
  assert.equal(works(withUplink({ backlog: 0, delivery: 'probing' })), false)
  assert.equal(works(withUplink({ backlog: 0 }, 'down')), false)
})
