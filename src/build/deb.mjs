// Makes the Debian packages dist/os-node_<version>_<arch>.deb for amd64, arm64 and armhf from the bundle, rootfs/ and the scripts of
// src/build/debian. amd64 and arm64 contain Node; armhf depends on Debian's nodejs. The same sources and SOURCE_DATE_EPOCH give the same
// bytes.
// What fails: a processor without a package (E_USAGE), a tool that is missing or fails (E_TOOL), a Node with another hash (E_NODE).
import {
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { HELPERS } from '../../drivers/native/build.mjs'
import { usageError } from './command.mjs'
import { ARTEFACT } from './dist-folder.mjs'
import { NODE_VERSION, nodeRuntime, tool } from './node-runtime.mjs'

/** Debian's name of a processor → Node's, and whether the package contains Node */
const PROCESSORS = { amd64: ['x64', true], arm64: ['arm64', true], armhf: ['arm', false] }
const PROGRAMS = ['os-web', 'os-transmit', 'os-tui']
/** files that only a person edits: dpkg prompts before it replaces one. Config.json is none: the service writes it (postinst) */
const CONFFILES = ['/etc/os-node/can0.conf']
/** files that the bundle does not read or that lie elsewhere in the package; of `native`, only that of the processor is packed */
const LEFT_OUT = /^(native|types|os-node\.d\.ts|os-node\.1|NOTICE|.*\.cache)$/

function put(to, from) {
  mkdirSync(dirname(to), { recursive: true })
  if (typeof from === 'string') copyFileSync(from, to)
  else writeFileSync(to, from)
}

const sizeOf = dir =>
  readdirSync(dir, { recursive: true })
    .map(name => lstatSync(join(dir, name)))
    .reduce((sum, stat) => sum + (stat.isFile() ? Math.ceil(stat.size / 1024) : 1), 0)

/** Lays the files of one package out below `tree`. */
function layOut(root, tree, { arch, carriesNode, say }) {
  const dist = join(root, 'dist')
  const program = join(tree, 'usr/lib/os-node')
  cpSync(join(root, 'rootfs'), tree, { recursive: true })
  for (const name of readdirSync(dist))
    if (!LEFT_OUT.test(name) && !ARTEFACT.test(name)) put(join(program, name), join(dist, name))
  const native = join(dist, 'native', `linux-${arch}`)
  if (!existsSync(native)) throw new Error(`E_TOOL: no addon for linux-${arch}: see what the build said`)
  cpSync(native, join(program, 'native', `linux-${arch}`), { recursive: true })
  for (const name of HELPERS) renameSync(join(program, 'native', `linux-${arch}`, name), join(program, name))
  for (const name of PROGRAMS) {
    symlinkSync('os-node.js', join(program, `${name}.js`))
    symlinkSync('os-node', join(tree, 'usr/bin', name))
  }
  const share = join(tree, 'usr/share')
  const doc = join(share, 'doc/os-node')
  put(join(doc, 'copyright'), join(root, 'LICENSE'))
  put(join(doc, 'NOTICE'), join(dist, 'NOTICE'))
  put(join(doc, 'changelog.gz'), gzipSync(readFileSync(join(root, 'CHANGELOG.md')), { level: 9 }))
  put(join(share, 'man/man1/os-node.1.gz'), gzipSync(readFileSync(join(dist, 'os-node.1')), { level: 9 }))
  const shell = ['completion', 'bash', '--config', join(root, 'Config.json')]
  const script = tool('nodejs', process.execPath, [join(dist, 'os-node.js'), ...shell])
  put(join(share, 'bash-completion/completions/os-node'), Buffer.from(script))
  for (const name of PROGRAMS) symlinkSync('os-node', join(share, 'bash-completion/completions', name))
  put(join(share, 'os-node/Config.json'), join(root, 'Config.json'))
  if (carriesNode) {
    const runtime = nodeRuntime(root, arch, say)
    put(join(program, 'node'), join(runtime, 'node'))
    put(join(doc, 'LICENSE.node'), join(runtime, 'LICENSE'))
  }
}

const control = ({ version, debian, carriesNode, size }) => `Package: os-node
Version: ${version}
Architecture: ${debian}
Maintainer: os-node maintainers <maintainers@users.noreply.os-node.example>
Installed-Size: ${size}
Depends: ${['libc6 (>= 2.34)', 'libstdc++6', 'init-system-helpers', 'systemd | systemd-standalone-sysusers', carriesNode ? '' : 'nodejs (>= 20.19)'].filter(Boolean).join(', ')}
Recommends: iproute2
Section: net
Priority: optional
Description: gateway for sensors and buses
 Reads sensors on GPIO, I2C, SPI, CAN, LoRa, Bluetooth and serial lines, keeps
 every value on flash and delivers it to an upstream server in small packets.${carriesNode ? `\n .\n Carries Node.js ${NODE_VERSION}.` : ''}
`

/** Sets the modes, whatever the umask of the build: programs and folders 755, files 644. */
function setModes(dir) {
  for (const entry of readdirSync(dir, { withFileTypes: true })) {
    const path = join(dir, entry.name)
    if (entry.isDirectory()) setModes(path)
    else if (entry.isFile()) chmodSync(path, lstatSync(path).mode & 0o100 ? 0o755 : 0o644)
  }
  chmodSync(dir, 0o755)
}

/** Throws E_USAGE if there is no package for one of `archs`. */
export function checkArchs(archs = []) {
  const unknown = archs.find(debian => !Object.hasOwn(PROCESSORS, debian))
  if (unknown !== undefined)
    throw usageError(`no package for '${unknown}'; there are ${Object.keys(PROCESSORS).join(', ')}`)
}

/** Makes the packages of `archs` (Debian's names; all by default) from dist/; returns their paths. `quick`: less compression. `out`: target folder. */
export function makePackages(
  root,
  { version, builtAt, archs = Object.keys(PROCESSORS), quick = false, out = join(root, 'dist'), say },
) {
  checkArchs(archs)
  return archs.map(debian => {
    const [arch, carriesNode] = PROCESSORS[debian]
    mkdirSync(join(root, '.build'), { recursive: true })
    const tree = mkdtempSync(join(root, '.build/deb-'))
    layOut(root, tree, { arch, carriesNode, say })
    const size = sizeOf(tree)
    for (const name of readdirSync(join(root, 'src/build/debian'))) {
      put(join(tree, 'DEBIAN', name), join(root, 'src/build/debian', name))
      chmodSync(join(tree, 'DEBIAN', name), 0o755)
    }
    writeFileSync(join(tree, 'DEBIAN/control'), control({ version, debian, carriesNode, size }))
    writeFileSync(join(tree, 'DEBIAN/conffiles'), `${CONFFILES.join('\n')}\n`)
    setModes(tree)
    const to = join(out, `os-node_${version}_${debian}.deb`)
    const packing = quick ? ['-Zgzip', '-z1'] : ['-Zxz']
    const env = { ...process.env, SOURCE_DATE_EPOCH: String(Math.floor(builtAt / 1000)) }
    tool('dpkg', 'dpkg-deb', ['--root-owner-group', ...packing, '--build', tree, to], { env })
    rmSync(tree, { recursive: true })
    say(`${to} ${(lstatSync(to).size / 2 ** 20).toFixed(1)} MB`)
    return to
  })
}
