// The small files of a gateway for tests of power cuts: configuration, identity, install id, token, users, sessions.
import assert from 'node:assert/strict'
import { ConfigStore } from '../../src/config'
import { storedInstallId } from '../../src/config/install'
import { Identity } from '../../src/gateway/identity'
import type { Files } from '../../src/lib/files'
import { silentLogger } from '../../src/lib/logger'
import { SecureSessions } from '../../src/protocol/secure/sessions'
import { newToken, storedToken, UserStore } from '../../src/services/users'

/** `change` throws if the disk refuses; `read` returns what a start finds, and throws if the start would fail. */
export interface Subject {
  /** changes per run; default 2, since one may be confirmed and the next in progress */
  readonly changes?: number
  open(files: Files): { change(n: number): unknown | Promise<unknown> }
  read(files: Files): unknown
}

const T0 = 1_710_000_000_000

const config = (dir: string, files: Files): ConfigStore =>
  ConfigStore.load({ path: `${dir}/Config.json`, dataDir: dir, makes: true, env: {}, cwd: '/', files })

const sessions = (dir: string, files: Files, problems: string[] = []): SecureSessions =>
  new SecureSessions({
    ...{ storePath: `${dir}/secure_sessions.json`, files, now: () => T0 / 1000 },
    onProblem: text => problems.push(text),
  })

/** Each with its files in `dir`. */
export const subjects = (dir: string): Record<string, Subject> => ({
  configuration: {
    open: files => {
      const store = config(dir, files)
      return { change: n => store.set('gateway.log.max_age_s', 100 + n) }
    },
    read: files => {
      const store = config(dir, files)
      assert.equal(store.problem, undefined)
      return store.get('gateway.log.max_age_s')
    },
  },
  identity: {
    changes: 1,
    open: files => {
      const fail = (_: string, __: () => void, error: unknown): never => {
        throw error
      }
      const store = config(dir, files)
      // the first start sets the name
      store.set('device_id', 'GW1')
      const identity = new Identity(store, silentLogger, files, fail)
      return { change: n => identity.assign(n) }
    },
    read: files => {
      const store = config(dir, files)
      assert.equal(store.problem, undefined)
      return store.get('assigned_id')
    },
  },
  'install id': {
    changes: 1,
    open: files => {
      const store = config(dir, files)
      let write: (() => void) | undefined
      const identity = new Identity(store, silentLogger, files, (_, again, error) => {
        write = again
        throw error
      })
      // an id that the disk refused is valid, and written later
      return { change: () => (write ? write() : void identity.installId) }
    },
    read: files => storedInstallId(dir, files),
  },
  token: {
    // a hash intentionally takes a tenth of a second
    changes: 1,
    open: files => ({ change: () => newToken(dir, files) }),
    read: files => storedToken(dir, files),
  },
  users: {
    open: files => {
      const store = new UserStore({ dataDir: dir, files })
      return { change: n => store.add({ username: `user${n}` }) }
    },
    read: files => new UserStore({ dataDir: dir, files }).list().map(({ username }) => username),
  },
  sessions: {
    open: files => {
      const problems: string[] = []
      const store = sessions(dir, files, problems)
      return {
        change: n => {
          store.keyOn(n, T0 + n)
          store.save(true)
          if (problems.length > 0) throw new Error(problems.splice(0).join())
        },
      }
    },
    read: files => {
      const problems: string[] = []
      const { size } = sessions(dir, files, problems)
      assert.deepEqual(problems, [])
      return size
    },
  },
})
