// What the image of each board has besides the common system: the modules of its early system, its consoles, and the files that the
// firmware of a Raspberry Pi reads (name on the boot partition → path in the base system).
import { usageError } from '../command.mjs'

/** modules of the early system for every board: the card's file systems and dm-verity; those with `?` may be built into the kernel */
const COMMON = ['squashfs', 'dm-verity', 'sha256-arm64?', 'sha2-ce?', 'ext4', 'vfat', 'nls_ascii', 'nls_cp437']

/** those of a Raspberry Pi: the watchdog first, so that a panic restarts the board; then what the card depends on */
const RASPBERRY = [
  'bcm2835_wdt',
  'bcm2835-dma',
  'clk-raspberrypi',
  'gpio-raspberrypi-exp',
  'fixed',
  'gpio-regulator',
  'sdhci-iproc',
  ...COMMON,
]

const fromFirmware = name => [name, `usr/lib/raspi-firmware/${name}`]
const tree = name => [name, `usr/lib/linux-image-RELEASE/broadcom/${name}`]

/**
 * In a trial start the firmware starts the watchdog, so that a kernel that panics before it loads the watchdog's driver is restarted, too.
 * The seconds are the time until systemd triggers the watchdog.
 */
const WATCHED = '[tryboot]\nkernel_watchdog_timeout=60\n[all]\n'

/** Raspberry Pi 4, 400 and Compute Module 4: their firmware continues in the boot partition that autoboot.txt names. */
const BCM2711 = {
  chip: 'bcm2711',
  overlays: ['spi0-2cs'],
  early: RASPBERRY,
  console: ['tty1', 'ttyS1,115200'],
  tag: 'pi4-64bit',
  chooser: 'firmware',
  options: 'pinctrl_bcm2835.persist_gpio_outputs=1',
  startConfig: '',
  config: `arm_64bit=1
upstream_kernel=1
kernel=kernel8.img
initramfs initramfs followkernel
enable_uart=1
disable_splash=1
${WATCHED}`,
  boot: Object.fromEntries([
    ...['start4.elf', 'fixup4.dat'].map(fromFirmware),
    ...['bcm2711-rpi-4-b.dtb', 'bcm2711-rpi-400.dtb', 'bcm2711-rpi-cm4-io.dtb'].map(tree),
  ]),
}

/** The watchdog's registers for time and control. U-Boot writes them before a trial start: it has no driver for this watchdog. */
const WATCHDOG = { wdog: '0x3f100024', rstc: '0x3f10001c' }

/**
 * Raspberry Pi 3 and Zero 2 W: it is not documented whether their firmware supports tryboot, so it starts U-Boot from the start partition.
 * Both slots use the device tree that the firmware passes, with its overlays.
 */
const bcm2837 = (tag, trees, radio) => ({
  ...(radio && { radio }),
  tag,
  chip: 'bcm2837',
  overlays: ['spi0-2cs'],
  early: [...RASPBERRY, 'bcm2835'],
  console: ['tty1', 'ttyS1,115200'],
  chooser: 'sector',
  options: 'pinctrl_bcm2835.persist_gpio_outputs=1',
  // the firmware leaves 448 MB of 512; U-Boot is at their end
  addresses: { kernel: '0x200000', fdt: '0x7f00000', ramdisk: '0x8000000', unpack: '0xa000000', ...WATCHDOG },
  startConfig: `arm_64bit=1
upstream_kernel=1
kernel=u-boot.bin
enable_uart=1
disable_splash=1
`,
  start: Object.fromEntries([
    ...['bootcode.bin', 'start.elf', 'fixup.dat'].map(fromFirmware),
    ...trees.map(name => tree(`${name}.dtb`)),
    ['u-boot.bin', 'usr/lib/u-boot/rpi_arm64/u-boot.bin'],
  ]),
})

/**
 * Raspberry Pi 5: its firmware is in its EEPROM and chooses the slot. Debian's stable kernel has no driver for its card; that of backports
 * has none for SPI and the serial ports of its header.
 */
const BCM2712 = {
  chip: 'bcm2712',
  otherRadios: /43430|43456|4345C5/,
  newer: ['linux-image-arm64'],
  lacks:
    'no SPI and no serial port on the header: Debian has no driver for them; --kernel takes a kernel of Raspberry Pi, which has',
  overlays: ['i2c1-pi5'],
  ownOverlays: ['i2c1-pi5', 'spi0-2cs'],
  early: [
    'bcm2835_wdt',
    'fixed',
    'gpio-regulator',
    'gpio-brcmstb',
    'pinctrl-brcmstb-bcm2712',
    'sdhci-brcmstb',
    ...COMMON,
  ],
  console: ['tty1', 'ttyAMA10,115200'],
  tag: 'pi5-64bit',
  chooser: 'firmware',
  options: 'pinctrl_rp1.persist_gpio_outputs=1',
  startConfig: '',
  config: BCM2711.config,
  boot: Object.fromEntries([
    tree('bcm2712-rpi-5-b.dtb'),
    // the later chip, under the name that the firmware looks for
    ['bcm2712d0-rpi-5-b.dtb', ['bcm2712d0-rpi-5-b.dtb', 'bcm2712-d-rpi-5-b.dtb'].map(name => tree(name)[1])],
  ]),
}

/**
 * Board → `early`: modules of the early system, in this order; `console`: kernel consoles, the main one last; `chooser`: what
 * chooses the slot: the firmware by autoboot.txt, or U-Boot by the sector of src/update/slot-chooser.ts; `options`: further parameters of the
 * kernel's command line; `config` and `boot`: config.txt and further files of a boot partition; `startConfig` and `start`: the same for the
 * start partition; `addresses`: where U-Boot loads kernel, device tree and early system, and the watchdog's registers (boot.cmd); `chip`: its
 * overlays go next to the kernel that the firmware starts; `overlays`: those enabled without --overlays, `ownOverlays`: the same for a kernel
 * that brings overlays; `tag`: Raspberry Pi Imager's name of the board; `newer`: packages that come from backports; `lacks`: what the image
 * lacks because of them; `radio`: firmware that Debian does not carry, and the boards that need it; `otherRadios`: names of firmware that the
 * board has no radio for.
 */
export const IMAGE_BOARDS = {
  'rpi-3': bcm2837('pi3-64bit', ['bcm2837-rpi-3-a-plus', 'bcm2837-rpi-3-b', 'bcm2837-rpi-3-b-plus']),
  'rpi-4': BCM2711,
  'rpi-5': BCM2712,
  'rpi-zero-2-w': bcm2837('pi3-64bit', ['bcm2837-rpi-zero-2-w'], {
    firmware: 'brcm/brcmfmac43430b0-sdio.bin',
    of: 'some revisions of Raspberry Pi Zero 2 W',
  }),
  cm4: BCM2711,
  'qemu-virt': {
    early: ['virtio_mmio', 'virtio_blk', ...COMMON],
    console: ['tty1', 'ttyAMA0'],
    chooser: 'sector',
    addresses: { kernel: '0x40400000', ramdisk: '0x44000000', unpack: '0x50000000' },
  },
}

/** The recipe of `board` in IMAGE_BOARDS. Throws E_USAGE. */
export function recipeOf(board) {
  if (Object.hasOwn(IMAGE_BOARDS, board ?? '')) return IMAGE_BOARDS[board]
  const names = Object.keys(IMAGE_BOARDS).join(', ')
  throw usageError(board ? `no image for ${board}; there are ${names}` : `give --board NAME: ${names}`)
}
