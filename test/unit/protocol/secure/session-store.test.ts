// The file of the secure sessions: its exact form, how often it is written, and the effects of damage and failing
// disks.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { SecureSessions, type SecureSessionsOptions } from '../../../../src/protocol/secure/sessions'
import { deriveSessionKey } from '../../../../src/wire/cipher'
import { ManualClock } from '../../../lib/manual'
import { MemFiles, systemError } from '../../log/memfiles'

const T = 1_710_000_000_000
const PATH = '/d/data/secure_sessions.json'

function open(
  files: MemFiles,
  clock = new ManualClock(),
  options: SecureSessionsOptions = {},
): { sessions: SecureSessions; problems: string[] } {
  const problems: string[] = []
  const sessions = new SecureSessions({
    storePath: PATH,
    files,
    now: () => Math.floor(clock.wall() / 1000),
    mono: () => clock.mono(),
    onProblem: problem => problems.push(problem),
    ...options,
  })
  return { sessions, problems }
}
const put = (files: MemFiles, text: string): void => {
  const fd = files.open(PATH, 'w')
  files.write(fd, Buffer.from(text))
  files.close(fd)
}
const renames = (files: MemFiles): (() => number) => {
  let count = 0
  files.gate = (operation, path) => {
    if (operation === 'rename' && path === PATH) count++
  }
  return () => count
}

test('keys stored for one server are not used for another, nor those of a file without a server name', () => {
  const files = new MemFiles()
  const keyed = (peer?: string): void => {
    const { sessions } = open(files, new ManualClock(), peer === undefined ? {} : { peer })
    sessions.keyOn(7, T)
    sessions.confirmSecureDict(7, T)
    sessions.save(true)
  }
  const keyFor = (peer: string) => open(files, new ManualClock(), { peer }).sessions.getSessionKey(7)
  keyed('one')
  assert.notEqual(keyFor('one'), null)
  assert.equal(keyFor('two'), null)
  keyed()
  assert.equal(keyFor('one'), null)
})

test('the file has exactly the form of the reference', () => {
  const files = new MemFiles()
  const { sessions } = open(files)
  sessions.noteLocalPlaintextSent(5, T)
  sessions.confirmSecureDict(5, T)
  sessions.markSecureChannel(5, '1.2.3.4:5')
  sessions.save(true)
  const key = '4f1c4fae597a2bf60a5f5d47704aa44fe5067f04592b8321ba84f067d6ba5d68'
  assert.equal(
    files.read(PATH).toString(),
    `{
  "updated_at": 1710000000,
  "sessions": {
    "5": {
      "last": 1710000000,
      "peer_addr": "1.2.3.4:5",
      "first_plaintext_ts": 1710000000000,
      "pending_timestamp": 1710000000000,
      "pending_key_hex": "${key}",
      "key_hex": "${key}",
      "dict_ready": true,
      "decrypt_confirmed": true,
      "state": "SECURE"
    }
  }
}`,
  )
})

test('every state survives a restart', () => {
  const files = new MemFiles()
  const { sessions } = open(files)
  sessions.noteLocalPlaintextSent(1, T)
  sessions.establishRemotePlaintext(2, T)
  sessions.establishRemotePlaintext(3, 5)
  sessions.establishRemotePlaintext(4, T)
  sessions.markSecureChannel(4)
  sessions.markSecureChannel(5)
  sessions.confirmSecureDict(6)
  sessions.save(true)
  const again = open(files)
  assert.deepEqual(again.problems, [])
  for (let aid = 1; aid <= 6; aid++) assert.deepEqual(again.sessions.session(aid), sessions.session(aid), `aid ${aid}`)
})

test('a new or confirmed key is written immediately, other changes at most every 5 s, access times hardly ever', () => {
  const files = new MemFiles()
  const clock = new ManualClock()
  const { sessions } = open(files, clock)
  const written = renames(files)
  sessions.establishRemotePlaintext(1, T)
  sessions.establishRemotePlaintext(2, T)
  assert.equal(written(), 2, 'packets under the key may wait in a broker while this process is killed')
  assert.deepEqual(open(files, clock).sessions.getSessionKey(2), sessions.getSessionKey(2))
  sessions.markSecureChannel(1)
  assert.equal(open(files, clock).sessions.isConfirmed(1), true, 'or a kill would let a stranger take its place')
  assert.equal(written(), 3)
  sessions.heard(1, ['192.0.2.9', 5000])
  clock.advance(4999)
  sessions.save()
  assert.equal(written(), 3)
  clock.advance(1)
  sessions.save()
  assert.equal(written(), 4)
  for (let k = 0; k < 1000; k++) {
    clock.advance(10_000)
    sessions.getSessionKey(1)
    sessions.save()
  }
  assert.equal(written(), 4, 'reading changes nothing that a restart needs yet')
  clock.advance(86_400_000 / 4)
  sessions.save()
  assert.equal(written(), 5, 'before the file would let a living session expire')
  sessions.save(true)
  assert.equal(written(), 6)
})

test('unknown senders can make any number of sessions: 1000 of them are written immediately, and 50 more each second', () => {
  const files = new MemFiles()
  const clock = new ManualClock()
  const { sessions } = open(files, clock)
  const written = renames(files)
  for (let aid = 1; aid <= 500; aid++) sessions.establishRemotePlaintext(aid, T)
  // 1 + 2 + … + 44 = 990
  assert.equal(written(), 44)
  clock.advance(9000)
  sessions.markSecureChannel(1)
  assert.equal(written(), 44, '460 of 500 sessions')
  clock.advance(1000)
  sessions.save()
  assert.equal(written(), 45)
})

test('what was not written immediately is written later, without another call', () => {
  const files = new MemFiles()
  const clock = new ManualClock()
  const armed: [number, () => void][] = []
  const after = (ms: number, run: () => void) => {
    armed.push([ms, run])
    return () => undefined
  }
  const { sessions } = open(files, clock, { timers: { after } })
  sessions.establishRemotePlaintext(1, T)
  const written = renames(files)
  clock.advance(1000)
  for (const port of [5000, 5001]) {
    sessions.heard(1, ['192.0.2.9', port])
    sessions.save()
  }
  assert.equal(written(), 0)
  assert.deepEqual(
    armed.map(([ms]) => ms),
    [4000],
  )
  clock.advance(4000)
  armed[0]![1]()
  assert.equal(written(), 1)
  assert.equal(armed.length, 1, 'nothing is left to write')
})

test('without any session no file is created, and an expired one is removed from the file', () => {
  const files = new MemFiles()
  const clock = new ManualClock()
  const { sessions } = open(files, clock)
  sessions.save()
  sessions.save(true)
  assert.equal(files.exists(PATH), false)
  sessions.establishRemotePlaintext(1, T)
  clock.advance(86_401_000)
  const later = open(files, clock)
  later.sessions.save()
  assert.deepEqual(JSON.parse(files.read(PATH).toString()).sessions, {})
})

test('after the first sync of a board without a clock the file survives a restart', () => {
  const files = new MemFiles()
  const clock = new ManualClock(0)
  const { sessions } = open(files, clock)
  sessions.establishRemotePlaintext(1, T)
  clock.advance(10_000)
  clock.wallMs += T
  sessions.save()
  assert.equal(open(files, clock).sessions.size, 1)
})

test('a large file is written less often', () => {
  const files = new MemFiles()
  const clock = new ManualClock()
  const { sessions } = open(files, clock)
  for (let aid = 1; aid <= 1000; aid++) sessions.establishRemotePlaintext(aid, T)
  const written = renames(files)
  clock.advance(19_999)
  sessions.save()
  assert.equal(written(), 0)
  clock.advance(1)
  sessions.save()
  assert.equal(written(), 1)
})

test('a damaged file is reported and renamed, and the start has no sessions', () => {
  for (const text of ['{"sessions": {"5"', '[]', '{"sessions": []}', '', 'null', '{"sessions": {}']) {
    const files = new MemFiles()
    put(files, text)
    const { sessions, problems } = open(files)
    assert.equal(sessions.size, 0)
    assert.match(problems.join(), /damaged: .*renamed to/, text)
    assert.equal(files.read(`${PATH}.damaged`).toString(), text)
    sessions.establishRemotePlaintext(1, T)
    assert.equal(open(files).sessions.size, 1, 'and works on')
  }
})

test('invalid entries of a file are skipped, the others are used', () => {
  const good = new MemFiles()
  const { sessions } = open(good)
  sessions.establishRemotePlaintext(7, T)
  const content = sessions.stored()
  const entry = content.sessions['7']!
  const bad: Record<string, unknown> = {
    '8': null,
    '9': { ...entry, key_hex: 'zz' },
    '10': { ...entry, last: 'now' },
    '-1': entry,
    '4294967296': entry,
    __proto__x: entry,
    '11': { ...entry, pending_key_hex: 'ab' },
  }
  const files = new MemFiles()
  put(files, JSON.stringify({ ...content, sessions: { ...content.sessions, ...bad } }))
  const { sessions: read, problems } = open(files)
  assert.deepEqual(read.aids(), [7])
  assert.match(problems.join(), /7 entries not valid/)
})

test('files of every form that was ever written (test/corpus/sessions, each made by the code of its day) are read', () => {
  const corpus = join(process.env.OS_NODE_TEST_ROOT ?? process.cwd(), 'test/corpus/sessions')
  const forms: Record<string, { peer?: string; others: [number, string][] }> = {
    '2026-11-21-receiver': { others: [] },
    '2026-11-22-peer': { peer: 'up.example.org:8080', others: [] },
    '2026-11-27-other-keys': {
      others: [
        [T + 20, 'gateway-2'],
        [T - 30, ''],
      ],
    },
  }
  assert.deepEqual(readdirSync(corpus).sort(), Object.keys(forms))
  for (const [date, { peer, others }] of Object.entries(forms)) {
    const files = new MemFiles()
    put(files, readFileSync(join(corpus, date, 'secure_sessions.json'), 'utf8'))
    const { sessions, problems } = open(files, new ManualClock(), peer === undefined ? {} : { peer })
    assert.deepEqual(problems, [], date)
    assert.deepEqual(
      [5, 6, 4_294_967_294].map(aid => {
        const { state, peer_addr, first_plaintext_ts, pending_timestamp } = sessions.session(aid)!
        return [aid, state, peer_addr, first_plaintext_ts, pending_timestamp]
      }),
      [
        [5, 'SECURE', '192.0.2.5:9999', T, T],
        [6, 'PLAINTEXT_SENT', null, null, T + 6],
        [4_294_967_294, 'DICT_READY', '192.0.2.9:1', T + 9, null],
      ],
      date,
    )
    assert.deepEqual(sessions.getSessionKey(5), Buffer.from(deriveSessionKey(5, T)), date)
    assert.deepEqual(sessions.others(5), others, date)
    if (peer) assert.equal(open(files, new ManualClock(), { peer: 'other.example.org:8080' }).sessions.size, 0)
  }
})

test('an expired session of the file is not loaded', () => {
  const files = new MemFiles()
  const clock = new ManualClock()
  const { sessions } = open(files, clock)
  sessions.establishRemotePlaintext(7, T)
  clock.advance(86_401_000)
  assert.equal(open(files, clock).sessions.size, 0)
})

test('a file that cannot be read is reported and left alone', () => {
  const files = new MemFiles()
  put(files, '{}')
  files.gate = operation => {
    if (operation === 'read') throw systemError('EIO')
  }
  const { sessions, problems } = open(files)
  assert.match(problems.join(), /EIO/)
  assert.equal(sessions.size, 0)
  assert.equal(files.files.has(`${PATH}.damaged`), false)
})

test('any failing write is reported once, changes no session, leaves a complete file, and is retried later', () => {
  for (const failing of ['mkdir', 'open', 'write', 'sync', 'rename', 'syncDir'] as const) {
    const files = new MemFiles()
    const clock = new ManualClock()
    const { sessions, problems } = open(files, clock)
    sessions.establishRemotePlaintext(1, T)
    clock.advance(5000)
    files.tear = 0.5
    files.gate = operation => {
      if (operation === failing) throw systemError('ENOSPC')
    }
    sessions.establishRemotePlaintext(2, T)
    clock.advance(5000)
    sessions.save()
    assert.equal(problems.length, 1, failing)
    assert.equal(sessions.shouldEncryptOutbound(2), true)
    assert.ok(open(files.copy()).sessions.size >= 1, `${failing}: the file is whole`)
    files.gate = () => undefined
    clock.advance(5000)
    sessions.save()
    assert.equal(open(files).sessions.size, 2, failing)
    assert.equal(problems.length, 1)
  }
})

test('power cut at any operation of a write: the old or the new file is present', () => {
  for (let cut = 1; cut < 12; cut++) {
    const files = new MemFiles()
    const clock = new ManualClock()
    const { sessions } = open(files, clock)
    sessions.establishRemotePlaintext(1, T)
    clock.advance(5000)
    let left = cut
    let after: MemFiles | null = null
    files.gate = operation => {
      if (operation === 'read' || operation === 'close' || --left !== 0) return
      after = files.afterPowerCut(0.5)
      throw systemError('EIO')
    }
    sessions.establishRemotePlaintext(2, T)
    const { sessions: read, problems } = open(after ?? files.afterPowerCut())
    assert.ok(read.size >= 1, `cut at ${cut}`)
    assert.deepEqual(problems, [])
  }
})
