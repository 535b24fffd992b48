// A machine with Debian's arm64 kernel of the image under the emulator, and the buses that this kernel gets from its own drivers without
// hardware: virtual CAN; a CP2112 by /dev/uhid (I2C, GPIO lines with edges; test/rig/models/cp2112.c), with a DS2482 on it for 1-Wire; a
// Bluetooth adapter on a pseudo-terminal (test/rig/models/hci-uart.c); the machine's own GPIO chip, with spi-gpio and spidev on its lines;
// its PL011, and pci-serial ports, wired in pairs. An SX127x is a program behind /dev/spidev (CUSE), as in the rig. It has one
// processor, a cortex-a72, which runs programs of 32 bits too: arm64 Node 24 and armhf nodejs are in it.
// Needs: image cc
import { execFileSync, spawn } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { BOARDS, nodeFor } from '../lib/board-nodes'
import { removeDir, root, tempDir, until } from '../lib/gateway'

/** in the machine: the paths of what it has besides its buses */
export const INSIDE = { bundle: '/os-node.js', radio: '/bin/sx127x', spi: '/spi-gpio.ko', pins: '/run/pins' }
/** what the chips of the machine measure */
export const MEASURED = { celsius: 23.5, humidity: 41, cellar: 21.5, thermometer: '28-0316a2795fff' }

const LIBRARIES = 'usr/lib/aarch64-linux-gnu'
const LOADER = 'ld-linux-aarch64.so.1'
const LINKED = ['libdl.so.2', 'libstdc++.so.6', 'libm.so.6', 'libgcc_s.so.1', 'libpthread.so.0', 'libc.so.6']
const ARM_LIBRARIES = 'usr/lib/arm-linux-gnueabihf'
/** of Debian's libraries for armhf: those that its nodejs is linked with */
const ARM_LINKED =
  /^(ld-linux-armhf|libnode|libuv|libz|libbrotli(common|dec|enc)|libcares|libnghttp2|libcrypto|libssl|libicu(data|i18n|uc)|libzstd|libstdc\+\+|libm|libgcc_s|libpthread|libdl|libc)\.so\./

/** `spi_gpio` is loaded by the test */
const MODULES = [
  'can-raw',
  'can-isotp',
  'vcan',
  'uhid',
  'hid-cp2112',
  'i2c-dev',
  'ds2482',
  'w1-therm',
  'hci-uart',
  'cuse',
]
const SPI = ['spi-bitbang', 'spi-gpio']

/** SPI on lines of the machine's GPIO chip. What the chip at the other end would send is the level that its line 2 was left with. */
const SPI_NODE = `
	spi {
		compatible = "spi-gpio";
		#address-cells = <1>;
		#size-cells = <0>;
		sck-gpios = <&{/pl061@9030000} 0 0>;
		mosi-gpios = <&{/pl061@9030000} 1 0>;
		miso-gpios = <&{/pl061@9030000} 2 0>;
		cs-gpios = <&{/pl061@9030000} 4 1>;
		num-chipselects = <1>;
		device@0 {
			compatible = "rohm,dh2228fv";
			reg = <0>;
			spi-max-frequency = <1000000>;
		};
	};
};`

type Entry = [string, number, (string | Uint8Array)?, [number, number]?]
interface Maker {
  baseSystem(root: string, say: () => void): string
  nodeRuntime(root: string, arch: string): string
  layOut(root: string, what: object): string
  modulesInOrder(folder: string, names: readonly string[]): string[]
  cpio(entries: Entry[]): Buffer
}
const load = async (path: string): Promise<Maker> => (await import(join(root, 'src/build', path))) as Maker

/** Compiles C programs of the rig for the machine into `dir`. */
async function compile(dir: string): Promise<void> {
  const cc = (...words: string[]): string =>
    execFileSync('aarch64-linux-gnu-gcc', ['-O2', '-Wall', '-Wextra', '-Werror', ...words, '-lm'], { encoding: 'utf8' })
  const rig = join(root, 'test/rig')
  for (const name of ['cp2112', 'hci-uart']) cc('-static', '-o', join(dir, name), join(rig, `models/${name}.c`))
  const { layOut } = await load('image/packages.mjs')
  const fuse = join(layOut(root, { label: 'fuse', packages: ['libfuse3-dev'], size: 20, say: () => {} }), 'usr')
  // the headers of fuse only: those of the C library are the compiler's
  mkdirSync(join(dir, 'include'))
  symlinkSync(join(fuse, 'include/fuse3'), join(dir, 'include/fuse3'))
  const sources = readdirSync(join(rig, 'sx127x')).filter(name => name.endsWith('.c'))
  const library = join(fuse, 'lib/aarch64-linux-gnu/libfuse3.so.4')
  const linked = [library, '-Wl,--allow-shlib-undefined', '-I', join(dir, 'include')]
  cc('-std=gnu11', '-o', join(dir, 'sx127x'), ...sources.map(name => join(rig, 'sx127x', name)), ...linked)
  writeFileSync(join(dir, 'libfuse3.so.4'), readFileSync(library))
}

/** A folder with what is in it: what is a link there is a file here. */
function tree(base: string, path: string): Entry[] {
  if (!statSync(join(base, path)).isDirectory()) return [[path, 0o100644, readFileSync(join(base, path))]]
  return [[path, 0o040755], ...readdirSync(join(base, path)).flatMap(name => tree(base, join(path, name)))]
}

/** The early system that runs `test` with both Nodes and ends. `environment`: words of the shell, set for it. */
async function earlySystem(base: string, dir: string, test: string, environment: string): Promise<Buffer> {
  const { nodeRuntime } = await load('node-runtime.mjs')
  const { cpio, modulesInOrder } = await load('image/initramfs.mjs')
  const [release] = readdirSync(join(base, 'usr/lib/modules'))
  const folder = join(base, 'usr/lib/modules', release!)
  const needs = execFileSync('depmod', ['-n', '-b', join(base, 'usr'), release!], {
    encoding: 'utf8',
    maxBuffer: 2 ** 27,
  })
  writeFileSync(
    join(dir, 'modules.dep'),
    needs
      .split('\n')
      .filter(line => line.startsWith('kernel/'))
      .join('\n'),
  )
  writeFileSync(join(dir, 'modules.builtin'), readFileSync(join(folder, 'modules.builtin')))
  const modules = modulesInOrder(dir, [...MODULES, ...SPI])
  const names = modules.map(path => basename(path, '.ko.xz'))
  await compile(dir)
  const armhf = await nodeFor(BOARDS.find(({ arch }) => arch === 'arm')!)
  const init = `#!/bin/busybox sh
export PATH=/bin
busybox mount -t proc proc /proc
busybox mount -t sysfs sys /sys
busybox mount -t devtmpfs dev /dev
busybox mkdir /dev/pts
busybox mount -t devpts devpts /dev/pts
busybox mount -t tmpfs run /run
echo 1 >/proc/sys/debug/exception-trace
busybox date -s @${Math.floor(Date.now() / 1000)} >/dev/null
for name in ${names.filter(name => name !== 'spi-gpio').join(' ')}; do busybox insmod /$name.ko; done
busybox ip link set lo up
busybox ip link add vcan0 type vcan
busybox ip link set vcan0 mtu 72 up
cp2112 ${INSIDE.pins} sht3x=${MEASURED.celsius},${MEASURED.humidity} ds2482=${MEASURED.cellar} &
hci-uart 0201060916d2fc403e00000000 &
until [ -c /dev/i2c-0 ]; do busybox usleep 50000; done
echo ds2482 0x18 >/sys/bus/i2c/devices/i2c-0/new_device
export HOME=/root TMPDIR=/run ${environment}
for arch in aarch64 armhf; do
  node-$arch --test-reporter=tap /test.js
  status=$?
  [ $status = 0 ] || busybox dmesg | busybox tail -n 40
  echo "$arch ended with $status"
done
busybox poweroff -f
`
  const file = (path: string, from: string, mode = 0o100755): Entry => [path, mode, readFileSync(from)]
  const folders = `bin dev proc sys run tmp root lib native native/linux-arm64 native/linux-arm usr usr/lib usr/share ${LIBRARIES} ${ARM_LIBRARIES}`
  return cpio([
    ...folders.split(' ').map((name): Entry => [name, 0o040755]),
    ['dev/console', 0o020600, '', [5, 1]],
    ['init', 0o100755, init],
    file('bin/busybox', join(base, 'usr/bin/busybox')),
    ...['cp2112', 'hci-uart', 'sx127x'].map(name => file(`bin/${name}`, join(dir, name))),
    file('bin/node-aarch64', join(nodeRuntime(root, 'arm64'), 'node')),
    file('bin/node-armhf', join(armhf, 'usr/bin/node')),
    file(`lib/${LOADER}`, join(base, LIBRARIES, LOADER)),
    ...LINKED.map(name => file(`${LIBRARIES}/${name}`, join(base, LIBRARIES, name))),
    file(`${LIBRARIES}/libfuse3.so.4`, join(dir, 'libfuse3.so.4')),
    file('lib/ld-linux-armhf.so.3', join(armhf, ARM_LIBRARIES, 'ld-linux-armhf.so.3')),
    ...readdirSync(join(armhf, ARM_LIBRARIES))
      .filter(name => ARM_LINKED.test(name) && !/\.\d+\.\d+\.\d+$/.test(name))
      .map(name => file(`${ARM_LIBRARIES}/${name}`, join(armhf, ARM_LIBRARIES, name))),
    ...modules.map(
      (path, k): Entry => [
        `${names[k]}.ko`,
        0o100644,
        execFileSync('xz', ['-dc', join(folder, path)], { maxBuffer: 2 ** 26 }),
      ],
    ),
    ...['linux-arm64', 'linux-arm'].map(name =>
      file(`native/${name}/os_node.node`, join(root, 'dist/native', name, 'os_node.node')),
    ),
    ...tree(armhf, 'usr/share/nodejs'),
    file(INSIDE.bundle.slice(1), join(root, 'dist/os-node.js'), 0o100644),
    file('test.js', test, 0o100644),
  ])
}

const MACHINE = [
  '-M',
  'virt,acpi=off',
  '-cpu',
  'cortex-a72',
  '-m',
  '1536',
  '-no-reboot',
  '-nic',
  'none',
  '-display',
  'none',
]

/** The serial ports: ttyS0 and ttyS1 are wired, and so are ttyAMA0, a PL011, and ttyS2. The console is another device. */
function ports(dir: string): string[] {
  const wire = (name: string, ends: [string[], string[]]): string[] =>
    ends.flatMap((device, k) => [
      '-chardev',
      `socket,id=${name}${k},path=${join(dir, name)},server=${k === 0 ? 'on,wait=off' : 'off'}`,
      ...device,
    ])
  const pci = (id: string): string[] => ['-device', `pci-serial,chardev=${id}`]
  return [
    ...wire('uart', [pci('uart0'), pci('uart1')]),
    ...wire('rs485', [['-serial', 'chardev:rs4850'], pci('rs4851')]),
    ...[
      '-chardev',
      'stdio,id=console,signal=off',
      '-device',
      'virtio-serial-pci',
      '-device',
      'virtconsole,chardev=console',
    ],
  ]
}

/** Runs the test file `test` in the machine with both Nodes; resolves what the console said. */
export async function onArm(test: string, environment: string, ms: number): Promise<string> {
  const base = (await load('image/system.mjs')).baseSystem(root, () => {})
  const [release] = readdirSync(join(base, 'usr/lib/modules'))
  const dir = tempDir()
  try {
    const initramfs = join(dir, 'initramfs')
    writeFileSync(initramfs, await earlySystem(base, dir, test, environment))
    const tree = join(dir, 'tree')
    const plain = MACHINE.map(word => (word.startsWith('virt') ? `${word},dumpdtb=${tree}` : word))
    execFileSync('qemu-system-aarch64', plain, { stdio: 'pipe' })
    const source = execFileSync('dtc', ['-q', '-I', 'dtb', '-O', 'dts', tree], { encoding: 'utf8' })
    const withSpi = source.replace(/\};\s*$/, SPI_NODE)
    execFileSync('dtc', ['-q', '-I', 'dts', '-O', 'dtb', '-o', tree], { input: withSpi })
    const kernel = join(base, 'boot', `vmlinuz-${release}`)
    const system = ['-kernel', kernel, '-dtb', tree, '-initrd', initramfs, '-append', 'console=hvc0 quiet panic=-1']
    const child = spawn('qemu-system-aarch64', [...MACHINE, ...ports(dir), ...system], {
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let [text, ended] = ['', false]
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', chunk => {
        text += chunk
        if (process.env.OS_NODE_SAID) process.stderr.write(chunk)
      })
    child.once('close', () => (ended = true))
    try {
      await until('its end', () => ended, ms)
    } catch (error) {
      throw new Error(text, { cause: error })
    } finally {
      child.kill('SIGKILL')
    }
    return text.replaceAll('\r', '')
  } finally {
    removeDir(dir)
  }
}
