// The command lines of build.mjs and release.mjs: --help, what is refused before anything is fetched or built, and how an error ends them.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { generateKeyPairSync, type KeyObject } from 'node:crypto'
import { cpSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { root, tempDir } from '../../lib/gateway'

interface Command {
  readonly OPTIONS: object
  buildOptions(root: string, args: string[]): { deb?: object; image?: object; tests?: string; quick?: boolean }
}
const load = async <T>(name: string): Promise<T> => (await import(join(root, 'src/build', name))) as T

/** A copy of what the two need, without packages. */
function clone(): string {
  const dir = tempDir()
  const parts = ['build.mjs', 'package.json', 'package-lock.json', 'board/overlays', 'drivers/native', 'src/build']
  for (const part of [...parts, 'src/services/dependencies', 'src/services/test-plugin'])
    cpSync(join(root, part), join(dir, part), { recursive: true })
  return dir
}
const run = (dir: string, script: string, ...args: string[]) =>
  spawnSync(process.execPath, [join(dir, script), ...args], { cwd: dir, encoding: 'utf8', env: { PATH: '' } })
const RELEASE = 'src/build/release.mjs'

const dir = tempDir()
const ED25519 = generateKeyPairSync('ed25519')
function pem(name: string, key: KeyObject): string {
  const path = join(dir, name)
  writeFileSync(path, key.export({ format: 'pem', type: key.type === 'private' ? 'pkcs8' : 'spki' }))
  return path
}
const own = pem('own.pem', ED25519.privateKey)
const pub = pem('pub.pem', ED25519.publicKey)
const rsa = pem('rsa.pem', generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey)

test('--help prints every option and examples, and builds nothing', async () => {
  const from = clone()
  const before = readdirSync(from, { recursive: true })
  const { OPTIONS } = await load<Command>('options.mjs')
  const { IMAGE_BOARDS } = await load<{ IMAGE_BOARDS: object }>('image/boards.mjs')
  for (const args of [['--install', '--image', '--help'], ['--install', '--deb', '--help'], ['-h']]) {
    const { status, stdout, stderr } = run(from, 'build.mjs', ...args)
    assert.deepEqual([status, stderr], [0, ''])
    const named = [...stdout.matchAll(/^ {2}--([a-z-]+)|; --(sha256) /gm)].map(([, name, second]) => name ?? second)
    assert.deepEqual(named.sort(), [...Object.keys(OPTIONS), 'help'].sort())
    assert.match(stdout, new RegExp(`${Object.keys(IMAGE_BOARDS).join(', ')}\n`))
    assert.match(stdout, /\nExamples:\n {2}npm run image -- .*\n {2}npm run deb -- .*\n$/)
  }
  const { status, stdout } = run(from, RELEASE, '--help')
  assert.equal(status, 0)
  for (const name of ['key', 'boards', 'url', 'out']) assert.match(stdout, new RegExp(`^ {2}--${name} `, 'm'))
  assert.match(stdout, /\nExamples:\n( {2}npm run release -- --key .*\n){2}$/)
  assert.deepEqual(readdirSync(from, { recursive: true }), before)
})

test('a wrong option is refused in one line with exit status 2, and nothing is fetched or built', () => {
  const from = clone()
  const before = readdirSync(from, { recursive: true })
  const refused = (script: string, args: string[], message: RegExp): void => {
    const { status, stdout, stderr } = run(from, script, ...args)
    assert.match(stderr, message)
    assert.deepEqual([status, stdout], [2, ''])
  }
  refused('build.mjs', ['--install', '--image', '--sing', own], /^E_USAGE: there is no option --sing: --help .*\n$/)
  refused(RELEASE, [], /^E_USAGE: give --key FILE; openssl genpkey .*\n$/)
  refused(RELEASE, ['--kye', own], /^E_USAGE: there is no option --kye: --help .*\n$/)
  refused(RELEASE, ['--key', rsa], /^E_USAGE: --key: .*rsa\.pem is no private Ed25519 key; openssl genpkey .*\n$/)
  refused(RELEASE, ['--key', own, '--boards', 'rpi-9'], /^E_USAGE: no image for rpi-9; there are rpi-3, .*\n$/)
  refused(RELEASE, ['--key', own, '--out', 'src'], /^E_USAGE: src is not empty: .*\n$/)
  assert.deepEqual(readdirSync(from, { recursive: true }), before)
})

test('each wrong option, value and file of build.mjs is refused with what to do', async () => {
  const { buildOptions } = await load<Command>('options.mjs')
  const refused = (args: string, why: string): void =>
    assert.throws(() => buildOptions(root, args.split(' ')), { message: new RegExp(`^E_USAGE: ${why}`) })
  refused('--deb arm64', 'arm64 belongs to no option: --help')
  refused('-x', 'there is no option -x: --help')
  refused('--constructor', 'there is no option --constructor: --help')
  refused('--quick=yes', '--quick takes no value: --help')
  refused('--deb=mips', "no package for 'mips'; there are amd64, arm64, armhf")
  refused('--board rpi-4', '--board is for an image: npm run image')
  refused('--image', 'give --board NAME: rpi-3, ')
  for (const none of ['--board', '--board=', '--board --quick'])
    refused(`--image ${none}`, '--board has no value: --help')
  refused('--image --board rpi-9', 'no image for rpi-9; there are rpi-3, ')
  const image = '--image --board rpi-4'
  refused(`${image} --sign ${dir}/no.pem`, '--sign: there is no file .*no.pem; openssl genpkey -algorithm ed25519')
  for (const path of [rsa, pub, dir, __filename])
    refused(`${image} --sign ${path}`, `--sign: ${path} is no private Ed25519 key; openssl genpkey`)
  refused(`${image} --trust ${pub},${dir}/no.pem`, '--trust: there is no file .*no.pem; .* -pubout ')
  refused(`${image} --trust ${rsa}`, '--trust: .*rsa.pem is no Ed25519 key; ')
  refused(`${image} --firmware ${dir}/no`, '--firmware: there is no folder ')
  mkdirSync(join(dir, 'empty'))
  refused(`${image} --firmware ${dir}/empty`, '--firmware: .*empty has no file')
  refused(`${image} --kernel ${dir} --sha256 00`, '--kernel: there is no file ')
  refused(`${image} --kernel ${own}`, '--sha256: .*own.pem has [0-9a-f]{64}: give it ')
  refused(`${image} --sha256 00`, '--sha256 is that of a kernel: give --kernel')
  refused(`${image} --overlays uart2+uart9`, 'no overlay uart9 for this board; there are ')
  refused('--image --board qemu-virt --overlays uart2', 'board qemu-virt has no overlays: leave out')
  refused(`${image} --url example`, '--url: example is no address')
})

test('values follow an option after = or a space; --tests and --deb have one only after =', async () => {
  const { buildOptions } = await load<Command>('options.mjs')
  const of = (args: string) => buildOptions(root, args.split(' '))
  const image = { board: 'rpi-4', overlays: ['uart2', 'w1-gpio,gpiopin=5'], firmware: undefined, url: undefined }
  const keys = { sign: own, trust: [pub, own] }
  for (const by of ['=', ' ']) {
    const args = { board: 'rpi-4', overlays: image.overlays.join('+'), sign: own, trust: `${pub},${own}` }
    const given = Object.entries(args).map(([name, value]) => `--${name}${by}${value}`)
    assert.deepEqual(of(`--install --image ${given.join(' ')}`).image, { ...image, ...keys })
  }
  const { deb, tests, quick } = of('--deb --tests --quick')
  assert.deepEqual([deb, tests, quick], [{ archs: undefined }, '', true])
  assert.deepEqual(of('--deb --deb=arm64,armhf').deb, { archs: ['arm64', 'armhf'] })
  assert.deepEqual([of('--tests=a,b').tests, of('--quiet').deb, of('--quiet').image], ['a,b', undefined, undefined])
})

test('an error with a code is printed without its stack, another with it', () => {
  const ends = (statement: string) => {
    const code = `import { reportErrors } from '${join(root, 'src/build/command.mjs')}'; reportErrors(); ${statement}`
    const { status, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', code], { encoding: 'utf8' })
    return [status, stderr]
  }
  assert.deepEqual(ends(`throw new Error('E_SIZE: too large')`), [1, 'E_SIZE: too large\n'])
  assert.deepEqual(ends(`Promise.reject(new Error('E_TOOL: dtc'))`), [1, 'E_TOOL: dtc\n'])
  assert.deepEqual(ends(`throw new Error('E_USAGE: no')`), [2, 'E_USAGE: no\n'])
  const [status, stderr] = ends('null.x')
  assert.equal(status, 1)
  assert.match(String(stderr), /^TypeError: .*\n {4}at /)
  const from = clone()
  const { status: failed, stderr: said } = run(from, 'build.mjs', '--install', '--quiet')
  assert.deepEqual([failed, said.split('\n').length], [1, 2], said)
  assert.match(said, /^E_INSTALL: npm ci failed\. /)
})
