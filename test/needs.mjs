// What tests need from the machine besides Node, in one table. A test file, or a helper it imports, declares it in a
// separate line: `//
// Needs: cc mosquitto`. test/run.mjs follows the imports, installs missing packages when it is root on Debian, and does not
// run a file whose needs are not met: it lists the file with the command that would make it run.
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { opensslHeaders } from '../drivers/native/quic/build.mjs'
import { NODE_VERSION, nodeRuntime } from '../src/build/node-runtime.mjs'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const PATH = `${process.env.PATH}:/usr/local/sbin:/usr/sbin:/sbin`.split(':')

const isHere = thing => (thing.startsWith('/') ? existsSync(thing) : PATH.some(dir => existsSync(join(dir, thing))))

/** A script of the rig: true if it reports nothing missing. */
const checks = script => () => spawnSync(join(root, script), ['--check']).status === 0

/**
 * packages: Debian's; things: the commands (or files) they install. `command`: another command to run, once. `never`:
 * why no package helps.
 */
const debian = (packages, ...things) => ({ packages: packages.split(' '), has: () => things.every(isHere) })

/** the first OpenSSL version with everything QUIC needs */
const QUIC_OPENSSL = 3.5
const nodes = new Map()

/** Whether this user can create a network namespace with a cable. */
function makesNetworks() {
  const asRoot = process.getuid() === 0 ? [] : ['-r']
  const cable = 'mount -t tmpfs tmpfs /run && ip link add near type veth peer name far'
  return spawnSync('unshare', [...asRoot, '--net', '--mount', 'sh', '-c', cable]).status === 0
}

/** `own`, a path of Node, if QUIC works with it; otherwise the Node in npm packages, downloaded once; null if that fails. */
export function quicNode(own) {
  if (nodes.has(own)) return nodes.get(own)
  let node = own
  const { stdout } = spawnSync(own, ['-p', 'process.versions.openssl'], { encoding: 'utf8' })
  if (!(Number.parseFloat(stdout) >= QUIC_OPENSSL))
    try {
      node = join(nodeRuntime(root, process.arch, console.log), 'node')
    } catch (error) {
      console.error(`# no Node ${NODE_VERSION}: ${error.message}`)
      node = null
    }
  nodes.set(own, node)
  return node
}

const node24 = {
  has: () => quicNode(process.execPath) !== null,
  command: `npm pack node-linux-${process.arch}@${NODE_VERSION}`,
}

const NEEDS = {
  linux: { has: () => process.platform === 'linux', never: 'needs Linux' },
  x64: { has: () => process.arch === 'x64', never: 'needs an x86-64 processor' },
  cc: debian('gcc libc6-dev', 'cc', '/usr/include/stdio.h'),
  // what compiles QUIC's library
  quic: {
    packages: ['gcc', 'libc6-dev', 'xz-utils', 'libssl-dev'],
    has: () => isHere('cc') && isHere('xz') && opensslHeaders(process.arch) !== undefined,
  },
  // a file with this runs on the Node from packages, if its own one is older; or its gateways do (OS_NODE_QUIC_NODE)
  node24,
  quicnode: node24,
  // its sizes are in recorded traces; Debian's Node compresses with another one
  zlib: {
    has: () => process.config.variables.node_shared_zlib !== true,
    command: 'node test/run.mjs with a Node of nodejs.org, which has a zlib of its own',
  },
  git: debian('git', 'git'),
  // a clone with its earlier commits
  history: {
    packages: ['git'],
    has: () =>
      spawnSync('git', ['rev-parse', '--is-shallow-repository'], { cwd: root }).stdout?.toString() === 'false\n',
    command: 'git fetch --unshallow   (in a clone; a copy without .git has no earlier version)',
  },
  curl: debian('curl', 'curl'),
  openssl: debian('openssl', 'openssl'),
  mosquitto: debian('mosquitto', 'mosquitto', 'mosquitto_passwd'),
  nftables: debian('nftables', 'nft'),
  // root of a separate network, with cables that lose packets
  network: {
    packages: ['iproute2', 'nftables', 'util-linux'],
    has: () => ['ip', 'tc', 'nft', 'unshare'].every(isHere) && makesNetworks(),
    never: 'needs root, or a kernel where any user makes namespaces',
  },
  conntrack: debian('conntrack', 'conntrack'),
  compose: debian('docker-compose', 'docker-compose'),
  haproxy: debian('haproxy', '/usr/sbin/haproxy'),
  // whatever version this Debian has
  postgres: {
    packages: ['postgresql'],
    has: () => spawnSync('sh', ['-c', 'ls /usr/lib/postgresql/*/bin/initdb']).status === 0,
  },
  mariadb: debian('mariadb-server-core', 'mariadbd'),
  sshd: debian('openssh-server openssh-client', 'sshd', 'ssh', 'ssh-keygen'),
  zsh: debian('zsh', 'zsh'),
  socat: debian('socat', 'socat'),
  modbus: debian('libmodbus-dev', '/usr/include/modbus/modbus.h'),
  chromium: debian('chromium', '/usr/bin/chromium'),
  boards: debian(
    'gcc-aarch64-linux-gnu gcc-arm-linux-gnueabihf libc6-dev-arm64-cross libc6-dev-armhf-cross libstdc++6-arm64-cross libstdc++6-armhf-cross qemu-user-static mmdebstrap debian-archive-keyring',
    'aarch64-linux-gnu-gcc',
    'arm-linux-gnueabihf-gcc',
    'qemu-aarch64-static',
    'qemu-arm-static',
    'mmdebstrap',
    '/usr/aarch64-linux-gnu/include/stdio.h',
    '/usr/arm-linux-gnueabihf/include/stdio.h',
    '/usr/aarch64-linux-gnu/lib/libstdc++.so.6',
    '/usr/arm-linux-gnueabihf/lib/libstdc++.so.6',
  ),
  loop: {
    has: () => process.getuid() === 0 && spawnSync('losetup', ['-f']).status === 0,
    never: 'needs root and a free loop device',
  },
  analyze: debian('systemd', 'systemd-analyze'),
  debs: debian('dpkg binutils xz-utils mmdebstrap debian-archive-keyring', 'dpkg-deb', 'strip', 'mmdebstrap'),
  // needed to build an image, and to boot it
  image: debian(
    'mmdebstrap debian-archive-keyring systemd kmod squashfs-tools cryptsetup-bin dosfstools mtools fdisk zstd xz-utils binutils dpkg device-tree-compiler make openssl qemu-system-arm u-boot-qemu',
    'mmdebstrap',
    'systemd-sysusers',
    'depmod',
    'mksquashfs',
    'veritysetup',
    'mkfs.vfat',
    'mcopy',
    'sfdisk',
    'dtc',
    'make',
    'openssl',
    'zstd',
    'qemu-system-aarch64',
    '/usr/lib/u-boot/qemu_arm64/u-boot.bin',
  ),
  can: debian('can-utils', 'cansend', 'candump', 'isotpsend'),
  ext4: debian('e2fsprogs', 'mkfs.ext4'),
  dmsetup: debian('dmsetup e2fsprogs mount', 'dmsetup', 'mkfs.ext4', 'losetup'),
  gpiod: debian('gpiod', 'gpioinfo', 'gpioset'),
  i2c: debian('i2c-tools', 'i2cget'),
  bluetooth: debian('bluez bluez-test-tools', 'hcitool', 'btvirt'),
  fuse: debian('libfuse3-dev pkgconf', '/usr/include/fuse3/fuse.h', 'pkg-config'),
  lwip: debian('liblwip-dev', '/usr/include/lwip/lwip/init.h'),
  ldattach: debian('util-linux-extra', 'ldattach'),
  pkill: debian('procps', 'pkill'),
  // the tools of test/rig/run, and its kernel: named by RIG_KERNEL, or built once
  rigtools: debian('busybox-static iproute2 xz-utils util-linux', 'busybox', 'ip', 'tc', 'xz', 'setpriv'),
  kernel: { has: checks('test/rig/run'), command: 'test/rig/build-kernel   (about 15 minutes, once)' },
  // Debian's own kernel under qemu, downloaded by the first test that boots it
  qemu: debian('qemu-system-x86 apt dpkg', 'qemu-system-x86_64', 'apt-get', 'dpkg-deb'),
}

const packagesOf = names => [...new Set(names.flatMap(name => NEEDS[name].packages ?? []))]

/** The needs of a complete group. */
const GROUPS = {
  crash: ['linux'],
  net: ['linux'],
  browser: ['chromium'],
  rig: ['linux', 'x64', 'cc', 'rigtools', 'kernel'],
}

const read = new Map()

/** The declarations of a file of test/ and of all its imports from test/, one entry for each. */
function declared(file, seen = new Set()) {
  if (seen.has(file) || !existsSync(file)) return []
  seen.add(file)
  if (!read.has(file)) {
    const text = readFileSync(file, 'utf8')
    const names = /^\/\/ Needs: (.+)$/m.exec(text)?.[1].split(/[\s,]+/) ?? []
    const wrong = names.filter(name => !(name in NEEDS))
    if (wrong.length > 0) throw new Error(`${relative(root, file)} needs ${wrong.join(', ')}: not in test/needs.mjs`)
    const imports = [...text.matchAll(/^(?:import|export) .*from '(\.[^']+)'|^} from '(\.[^']+)'/gm)]
    const paths = imports.map(found => join(dirname(file), `${found[1] ?? found[2]}.ts`))
    read.set(file, {
      long: /^\/\/ Long: /m.test(text),
      names,
      paths: paths.filter(path => path.startsWith(join(root, 'test'))),
    })
  }
  const one = read.get(file)
  return [one, ...one.paths.flatMap(path => declared(path, seen))]
}

/** The names of all needs of a test file; `file` is relative to test/. */
export const needsOf = file => [
  ...new Set([...(GROUPS[file.split('/')[0]] ?? []), ...declared(join(root, 'test', file)).flatMap(one => one.names)]),
]

/** True for a file with a line `// Long: REASON`, its own or of a helper: it runs in `npm run test:long` too. */
export const runsInBoth = file => declared(join(root, 'test', file)).some(one => one.long)

const known = new Map()
const has = name => {
  if (!known.has(name)) known.set(name, NEEDS[name].has())
  return known.get(name)
}

/** The names that this machine lacks. */
export const lacking = names => names.filter(name => !has(name))

/** Installs the packages of the missing names, as root on Debian; prints its actions. */
export function install(names) {
  const packages = packagesOf(lacking(names))
  if (packages.length === 0 || process.getuid?.() !== 0 || !PATH.some(dir => existsSync(join(dir, 'apt-get')))) return
  console.log(`# installing Debian packages for the tests: ${packages.join(' ')}`)
  const ran = spawnSync(join(root, 'test/lib/install'), packages, {
    stdio: ['ignore', 'pipe', 'pipe'],
    encoding: 'utf8',
  })
  if (ran.status === 0) console.log('# installed')
  else console.error(`# not installed: ${(ran.stderr ?? String(ran.error)).trim().split('\n').slice(-3).join('\n# ')}`)
  known.clear()
}

/** The commands that make all of the names available, and the reasons no command helps. */
export function remedies(names) {
  const packages = packagesOf(names)
  return [
    ...(packages.length > 0 ? [`apt-get install ${packages.join(' ')}`] : []),
    ...names.flatMap(name => NEEDS[name].command ?? []),
    ...names.flatMap(name => (NEEDS[name].never ? `nothing: ${NEEDS[name].never}` : [])),
  ]
}

export const allNeeds = Object.keys(NEEDS)
