// Needs: cc
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { OsError } from '../../../src/lib/errors'
import { addonRemedy, native, nativeError, nativeOrNull, systemError } from '../../../src/native'

const lacks = nativeOrNull() ? false : 'this machine has no C compiler'

test('without the addon every call is E_NO_ADDON, and callers that can do without get null', () => {
  process.env.OS_NODE_NO_ADDON = '1'
  try {
    assert.equal(nativeOrNull(), null)
    assert.throws(native, (error: OsError) => error.code === 'E_NO_ADDON' && /unset OS_NODE_NO_ADDON/.test(error.hint))
  } finally {
    delete process.env.OS_NODE_NO_ADDON
  }
})

test('the hint for a missing addon works at the location of the program', () => {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-remedy-'))
  try {
    // a package, or the file alone: there are no sources to build from
    const packaged = addonRemedy(join(dir, 'dist/native'), {})
    assert.match(packaged, /git clone[\s\S]*copy its folder dist\/native to .*dist\/native$/)
    assert.doesNotMatch(packaged, /build\.mjs/)
    writeFileSync(join(dir, 'build.mjs'), '')
    assert.match(addonRemedy(join(dir, 'dist/native'), {}), new RegExp(`cd ${dir} && node build\\.mjs --native$`))
  } finally {
    rmSync(dir, { recursive: true })
  }
})

test('with a C compiler the addon was built and loads', () => {
  let compiler = true
  try {
    execFileSync(process.env.CC ?? 'cc', ['--version'])
  } catch {
    compiler = false
  }
  assert.equal(nativeOrNull() !== null, compiler && process.platform === 'linux')
})

test('an error of the kernel is a stable code that keeps the errno name', () => {
  const error = nativeError(-2, 'sendto', '/run/notify')
  assert.ok(error instanceof OsError)
  assert.equal(error.code, 'NOT_FOUND')
  assert.equal(error.details['errno'], 'ENOENT')
  assert.equal(error.message, '/run/notify: sendto ENOENT')
  assert.equal(nativeError(-98, 'bind', 'x').code, 'PORT_BUSY')
  assert.equal(nativeError(-5, 'read', 'x').code, 'LINK_DOWN')
  assert.deepEqual({ ...systemError(-111, 'send') }, { code: 'ECONNREFUSED', errno: -111, syscall: 'send' })
})

test('a datagram to a closed port fails with the reason', { skip: lacks }, () => {
  const failed = (path: string, errno: string) =>
    assert.throws(
      () => native().sendUnixDatagram(path, Buffer.from('READY=1')),
      (error: OsError) => error.details['errno'] === errno,
    )
  failed('/nowhere/notify', 'ENOENT')
  failed('@os-node nobody here', 'ECONNREFUSED')
  failed(`/${'x'.repeat(107)}`, 'EINVAL')
  failed('', 'EINVAL')
  failed('/tmp\0x', 'EINVAL')
})

test('the state of the kernel clock is read', { skip: lacks }, () => {
  const state = native().ntpState()
  assert.equal(typeof state.synced, 'boolean')
  for (const key of ['offset_us', 'maxerror_us', 'esterror_us', 'status'] as const)
    assert.ok(Number.isFinite(state[key]), key)
  if (state.status & 0x40) assert.equal(state.synced, false)
})
