import assert from 'node:assert/strict'
import { type ChildProcess, execFileSync, fork, spawn } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { acquireLock, findOwner, lockPath, readLockFile } from '../../../src/gateway/lock'
import { listenAsOwner } from '../../../src/gateway/lock-socket'
import type { OsError } from '../../../src/lib/errors'
import { until } from '../../lib/gateway'

// this file is also the other process: it takes the lock, reports that, and waits to be killed
if (process.argv[2] === 'child') {
  const go = process.argv[4] === 'race' ? new Promise(resolve => process.once('message', resolve)) : Promise.resolve()
  process.send?.('ready')
  go.then(() => acquireLock(process.argv[3]!, 'run'))
    .then(
      () => process.send?.('held'),
      error => process.send?.(error.code),
    )
    .then(() => setInterval(() => undefined, 1000))
} else describe('the lock of a data directory', tests)

function tests(): void {
  const root = mkdtempSync(join(tmpdir(), 'os-node-lock-'))
  const children: ChildProcess[] = []
  after(() => {
    for (const child of children) child.kill('SIGKILL')
    rmSync(root, { recursive: true, force: true })
  })
  const child = (dir: string, mode = 'now'): ChildProcess => {
    const made = fork(__filename, ['child', dir, mode])
    children.push(made)
    return made
  }
  const word = (from: ChildProcess, not?: string): Promise<string> =>
    new Promise(resolve => {
      const hear = (text: unknown): void => {
        if (text === not) return
        from.off('message', hear)
        resolve(String(text))
      }
      from.on('message', hear)
    })
  const rejected = async (promise: Promise<unknown>): Promise<OsError> =>
    promise.then(
      () => assert.fail('should be refused'),
      error => error as OsError,
    )

  test('the data directory has one owner at a time, and release frees it', async () => {
    const dir = join(root, 'a', 'deep')
    const lock = await acquireLock(dir, 'run')
    assert.ok(lock.held())
    const error = await rejected(acquireLock(dir, 'command'))
    assert.equal(error.code, 'LOCKED')
    assert.equal(error.details.pid, process.pid)
    assert.match(error.message, /in use by process \d+ \(os-node run\)/)
    lock.setSocket('/x/s')
    assert.equal((await findOwner(dir))?.socket, '/x/s')
    lock.release()
    lock.release()
    assert.equal(await findOwner(dir), undefined)
    assert.deepEqual(readdirSync(dir), [])
  })

  test('the lock of a killed process is taken over, that of a running one is not', async () => {
    const dir = join(root, 'b')
    const other = child(dir)
    assert.equal(await word(other, 'ready'), 'held')
    assert.equal((await rejected(acquireLock(dir, 'run'))).details.pid, other.pid)
    const gone = new Promise(resolve => other.once('exit', resolve))
    other.kill('SIGKILL')
    await gone
    assert.equal(await findOwner(dir), undefined)
    const lock = await acquireLock(dir, 'run')
    assert.equal(readLockFile(dir)?.pid, process.pid)
    lock.release()
  })

  test('a reused pid, another boot and a torn file do not keep the lock', async () => {
    const dir = join(root, 'c')
    const first = await acquireLock(dir, 'run')
    const { info } = first
    const put = (text: string): void => writeFileSync(lockPath(dir), text)
    for (const stale of [
      JSON.stringify({ ...info, start: '1', nonce: 'old' }),
      JSON.stringify({ ...info, boot: 'another-boot', nonce: 'old' }),
      JSON.stringify({ ...info, space: 'pid:[1]', nonce: 'old' }),
      JSON.stringify(info).slice(0, 20),
      '',
    ]) {
      put(stale)
      assert.equal(first.held(), false)
      const lock = await acquireLock(dir, 'run')
      assert.ok(lock.held(), stale)
      first.release()
      assert.ok(lock.held(), 'a lost lock is not released by its former owner')
      lock.release()
    }
  })

  test('something in place of the lock file that is no lock is renamed', async () => {
    const dir = join(root, 'other')
    const others = [
      mkdirSync,
      (path: string) => execFileSync('mkfifo', [path]),
      (path: string) => symlinkSync('/nowhere/x', path),
    ]
    for (const make of others) {
      mkdirSync(dir)
      make(lockPath(dir))
      assert.equal(await findOwner(dir), undefined)
      const lock = await acquireLock(dir, 'run')
      assert.equal(readLockFile(dir)?.pid, process.pid)
      assert.equal(lock.fault, undefined)
      lock.release()
      assert.match(readdirSync(dir).join(), /^os-node\.lock\.damaged-[\w-]+$/)
      rmSync(dir, { recursive: true })
    }
  })

  test('an owner in another pid namespace counts as running when its socket answers', async () => {
    const dir = join(root, 'd')
    const { info } = await acquireLock(dir, 'run')
    const path = join(root, 'd.sock')
    const server = createServer().listen(path)
    await new Promise(resolve => server.once('listening', resolve))
    writeFileSync(lockPath(dir), JSON.stringify({ ...info, space: 'pid:[1]', pid: 999999, socket: path, nonce: 'n' }))
    assert.equal((await rejected(acquireLock(dir, 'run'))).code, 'LOCKED')
    await new Promise(resolve => server.close(resolve))
    ;(await acquireLock(dir, 'run')).release()
  })

  test('a zombie does not keep the lock', {
    skip: process.platform === 'linux' ? false : 'this machine has no /proc',
  }, async () => {
    const dir = join(root, 'z')
    const { info } = await acquireLock(dir, 'run')
    // the shell starts a child and becomes a sleep that never waits for it; then the child exits: a zombie
    const shell = spawn('sh', ['-c', 'sleep 0.2 & echo $!; exec sleep 300'])
    children.push(shell)
    const pid = Number(await new Promise(resolve => shell.stdout.once('data', data => resolve(String(data)))))
    const stat = (): string => (existsSync(`/proc/${pid}/stat`) ? readFileSync(`/proc/${pid}/stat`, 'utf8') : '')
    await until('the child is a zombie', () => /\) Z /.test(stat()))
    const text = stat()
    const start = text.slice(text.lastIndexOf(')') + 2).split(' ')[19]
    writeFileSync(lockPath(dir), JSON.stringify({ ...info, pid, start, nonce: 'z' }))
    ;(await acquireLock(dir, 'run')).release()
  })

  test('of many processes that race for a stale lock exactly one wins', async () => {
    const dir = join(root, 'e')
    const { info } = await acquireLock(dir, 'run')
    writeFileSync(lockPath(dir), JSON.stringify({ ...info, start: '1', nonce: 'dead' }))
    const racers = Array.from({ length: 6 }, () => child(dir, 'race'))
    await Promise.all(racers.map(racer => word(racer)))
    const words = racers.map(racer => word(racer, 'ready'))
    for (const racer of racers) racer.send('go')
    const said = await Promise.all(words)
    assert.deepEqual(said.sort(), ['LOCKED', 'LOCKED', 'LOCKED', 'LOCKED', 'LOCKED', 'held'])
    assert.deepEqual(readdirSync(dir), ['os-node.lock'])
  })

  /** A link to a folder that no user can write to, a separate one for each process. */
  const unwritable = (name: string): string => {
    const modules = readdirSync('/sys/module')
    const link = join(root, name)
    symlinkSync(join('/sys/module', modules[process.pid % modules.length]!), link)
    return link
  }

  test('where the lock file cannot be written the lock is a socket, which the file form respects, and it becomes a file later', async () => {
    const dir = unwritable('sys')
    assert.match((await rejected(acquireLock(dir, 'command'))).code, /^(DATA_DIR|DISK_FULL)$/)
    const lock = await acquireLock(dir, 'run')
    assert.match(lock.fault ?? '', /\((EACCES|EPERM|EROFS)\)/)
    assert.ok(lock.held())
    lock.setSocket('/x/s')
    assert.equal((await findOwner(dir))?.socket, '/x/s')
    const error = await rejected(acquireLock(dir, 'run'))
    assert.deepEqual([error.code, error.details.pid], ['LOCKED', process.pid])
    assert.equal((await rejected(acquireLock(dir, 'serve'))).code, 'LOCKED')
    await assert.rejects(lock.toFile(), { code: /^(EACCES|EPERM|EROFS|DATA_DIR)$/ })
    assert.ok(lock.fault)
    lock.release()
    await until('the name is free', async () => (await findOwner(dir)) === undefined)

    // mounted writable: the file form sees the process that still has the socket
    const again = await acquireLock(dir, 'serve')
    const real = realpathSync(dir)
    const writable = join(root, 'writable')
    mkdirSync(writable)
    rmSync(dir)
    symlinkSync(writable, dir)
    assert.ok(!real.startsWith(root))
    await again.toFile()
    assert.deepEqual([again.fault, readLockFile(dir)?.pid, readLockFile(dir)?.role], [undefined, process.pid, 'serve'])
    again.setSocket('/x/t')
    assert.equal(readLockFile(dir)?.socket, '/x/t')
    assert.equal((await rejected(acquireLock(dir, 'command'))).code, 'LOCKED')
    again.release()
    assert.ok(!existsSync(lockPath(dir)))
  })

  test('a gateway that could write the lock file removes it when another has the socket', async () => {
    const dir = join(root, 'both')
    const socket = (await listenAsOwner(dir, () => JSON.stringify({ pid: 77, nonce: 'n', role: 'serve' })))!
    assert.equal(await listenAsOwner(dir, () => ''), null)
    const error = await rejected(acquireLock(dir, 'run'))
    assert.deepEqual([error.code, error.details.pid], ['LOCKED', 77])
    assert.deepEqual(readdirSync(dir), [])
    socket.close()
    await until('the name is free', async () => (await findOwner(dir)) === undefined)
    ;(await acquireLock(dir, 'run')).release()
  })

  test('a data directory that cannot be created is DATA_DIR with its path', async () => {
    const file = join(root, 'file')
    writeFileSync(file, '')
    const error = await rejected(acquireLock(join(file, 'data'), 'run'))
    assert.equal(error.code, 'DATA_DIR')
    assert.match(error.message, /file\/data cannot be written \(ENOTDIR\)/)
    assert.equal((await rejected(acquireLock(file, 'run'))).code, 'DATA_DIR')
  })
}
