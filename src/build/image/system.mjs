// The root file system of a slot: Debian's packages laid out without running them, os-node's own package, the files of
// src/build/image/root, and what the packages' scripts would have set up. What an appliance has no use for is left out.
// What fails: a package that cannot be fetched, a tool that is missing (E_TOOL).
import {
  chmodSync,
  closeSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { basename, join } from 'node:path'
import { tool } from '../node-runtime.mjs'
import { layOut } from './packages.mjs'

const PACKAGES = [
  'bluez-firmware',
  'busybox-static',
  'chrony',
  'dash',
  'dmsetup',
  'dosfstools',
  'dropbear-bin',
  'e2fsprogs',
  'fdisk',
  'findutils',
  'firmware-brcm80211',
  'grep',
  'iproute2',
  'kmod',
  'libstdc++6',
  'linux-image-arm64',
  'netbase',
  'nftables',
  'raspi-firmware',
  'sed',
  'systemd',
  'systemd-resolved',
  'systemd-zram-generator',
  'u-boot-rpi',
  'udev',
  'util-linux',
  'wireless-regdb',
  'wpasupplicant',
]

/** What goes: documentation, languages, the package manager, Perl, and what speaks to terminals and desktops. */
const LEFT_OUT = [
  'boot/*',
  'etc/{pam.d,security,adduser.conf,apparmor.d,apt,cron.d,default,deluser.conf,dhcp,dpkg,init.d,initramfs-tools,kernel,logrotate.d,network,ppp,rc*.d,runit,sv,ucf.conf,ufw,update-motd.d,xdg}',
  'usr/bin/{apt*,deb-*,debconf*,dpkg*,perl*,dbus-*,gpasswd,chage,chfn,chsh,expiry,passwd,newgrp,sg,systemd-analyze,localedef,kernel-install,deb-systemd-*,ucf*,initctl,mkinitramfs,lsinitramfs,unmkinitramfs,linux-*,sensible-*,select-editor,run0}',
  'usr/sbin/{agetty,arpd,getty,cfdisk,fdisk,chcpu,ctrlaltdel,delpart,addpart,fsfreeze,fstrim,ldattach,pivot_root,raw,readprofile,resizepart,rtcwake,runuser,sulogin,wipefs,zramctl,add*,dbus-*,user*,group*,gr*,pw*,ch*passwd,newusers,vi*,del*,dpkg*,rdma,tc,dcb,tipc,devlink,bridge,debugfs,e2scrub*,update-*,wpa_action,cryptdisks*}',
  'usr/lib/{apt,debug,dpkg,dracut,klibc*,u-boot,raspi-firmware,initramfs-tools,linux-image-*,mime,networkd-dispatcher,NetworkManager,ifupdown,pm-utils,runit-helper,lsb,init,kernel,dbus-1.0}',
  'usr/lib/systemd/{boot,user,ntp-units.d,system-environment-generators}',
  'usr/lib/systemd/system/{dbus*,getty*,autovt*,console-getty*,container-getty*,*cryptdisks*,e2scrub*,initrd*,rescue*,emergency.service,ldconfig*,proc-sys-fs-binfmt*,dev-hugepages*,quota*,user*,*ask-password*,chronyd-restricted*,chrony-{dnssrv,wait}*,hwclock*}',
  'usr/lib/systemd/system/sys-{kernel-{config,debug,tracing},fs-fuse-connections}.mount',
  'usr/lib/systemd/system/systemd-{homed,pcr*,tpm*,userdb*,storagetm,hibernate*,suspend*,hybrid*,bsod,boot-*,repart,sysext*,confext*,firstboot,binfmt,quotacheck*,hwdb*,journald-audit*,journal-catalog*,journal-gateway*,machine*,mountfsd*,nsresourced*,coredump*,creds*,logind*,sysusers*,update-*,user-*,pstore*}*',
  'usr/lib/systemd/system/{sysinit,multi-user,graphical,sockets,timers,local-fs}.target.wants/{dbus*,getty*,e2scrub*}',
  'usr/lib/udev/hwdb*',
  'usr/lib/firmware/{brcm/{bcm4329*,bcm43xx*,brcmfmac{432*,433*,4350*,4354*,4356*,4358*,4366*,437*,43569*,43570*,43602*,4339*,43340*,43362*,43143*,4329*,4330*,4334*,4335*,43236*,43242*,43241*},brcmsmac*,*.bin.old},cypress/cyfmac{4339*,43340*,43362*,4354*,4356*,43570*,4373*,54591*,43012*}}',
  'usr/lib/aarch64-linux-gnu/{gconv,perl*,security,libdb-*,libsemanage*}',
  'usr/share/{apport,base-files,base-passwd,bash-completion,bug,debconf,dict,doc,doc-base,fish,info,initramfs-tools,lintian,locale,man,mime,openssh,pam*,perl*,pixmaps,polkit-1,runit,ucf,xml,zoneinfo,zsh}',
  'var/{lib,cache,log,backups}/*',
]

/** Folders of the kernel's modules that stay; the others are for servers, desktops and other makers' boards. */
const MODULES = [
  'arch/arm64/crypto',
  'crypto',
  'drivers/{base,block,bluetooth,char,clk/bcm,cpufreq,dma,dma-buf,firmware,gpio,hid,hwmon,i2c,iio,input,leds,mailbox,mfd,misc/eeprom,mmc,mux,nvmem,pinctrl,pps,ptp,pwm,regulator,reset,rtc,spi,staging/vc04_services,thermal,tty,usb,virtio,w1,watchdog}',
  'drivers/gpu/drm/{*.ko*,display,tiny,vc4,scheduler,solomon,virtio}',
  'drivers/md/{dm-mod,dm-verity,dm-bufio}.ko*',
  'drivers/net/{*.ko*,can,mdio,phy,usb,pcs}',
  'drivers/net/ethernet/{broadcom,microchip,wiznet}',
  'drivers/net/wireless/{broadcom,virtual}',
  'drivers/video',
  'fs/{ext4,fat,jbd2,mbcache.ko*,nls,squashfs,exfat,autofs,fuse}',
  'lib',
  'net/{6lowpan,802,8021q,bluetooth,bridge,can,core,ieee802154,ipv4,ipv6,llc,mac80211,mac802154,netfilter,rfkill,wireless}',
]

/** Fixed ids: what they own lies on the data partition and stays there over updates. */
const USERS = ['u os-node 800', 'u _chrony 801 - /var/lib/chrony']

/** Debian's packages laid out, fetched once: the folder, which is not to be changed. */
export const baseSystem = (root, say) => layOut(root, { label: 'base', packages: PACKAGES, size: 130, say })

/** The paths below `dir` that `patterns` (of bash) name. */
const matching = (dir, patterns) =>
  tool('bash', 'bash', ['-O', 'nullglob', '-c', `cd "$0" && printf '%s\\n' ${patterns.join(' ')}`, dir])
    .split('\n')
    .filter(path => path && existsSync(join(dir, path)))

/** Only the modules of MODULES stay, with a fresh index. */
function keepModules(tree, release) {
  const folder = join(tree, 'usr/lib/modules', release)
  const kernel = join(folder, 'kernel')
  const kept = matching(kernel, MODULES)
  renameSync(kernel, `${kernel}-all`)
  for (const path of kept) cpSync(join(`${kernel}-all`, path), join(kernel, path), { recursive: true })
  rmSync(`${kernel}-all`, { recursive: true })
  tool('kmod', 'depmod', ['-b', tree, release])
}

/** What the scripts of the packages do where they are installed: users, and files that are made of others. */
function setUp(tree) {
  const etc = join(tree, 'etc')
  for (const name of ['passwd', 'group']) cpSync(join(tree, `usr/share/base-passwd/${name}.master`), join(etc, name))
  writeFileSync(
    join(etc, 'passwd'),
    readFileSync(join(etc, 'passwd'), 'utf8').replace(/^root:.*/m, 'root:x:0:0:root:/root:/bin/sh'),
  )
  tool('systemd', 'systemd-sysusers', [`--root=${tree}`, '--inline', ...USERS])
  // systemd before 257 does not know `u!`, an account that is locked; no account of the image has a password
  const accounts = join(tree, 'usr/lib/sysusers.d')
  for (const name of readdirSync(accounts)) {
    const text = readFileSync(join(accounts, name), 'utf8')
    writeFileSync(join(accounts, name), text.replace(/^u!/gm, 'u'))
  }
  tool('systemd', 'systemd-sysusers', [`--root=${tree}`])
  writeFileSync(join(etc, 'machine-id'), '')
}

/** No program of the image runs as its owner: nothing here needs it. */
function dropOwnersRights(tree) {
  for (const entry of readdirSync(tree, { withFileTypes: true, recursive: true })) {
    const path = join(entry.parentPath, entry.name)
    if (entry.isFile() && lstatSync(path).mode & 0o6000) chmodSync(path, lstatSync(path).mode & 0o777)
  }
}

/** Throws E_IMAGE where a program of the system is linked with a library that is not in it. */
function checkLibraries(tree) {
  const files = readdirSync(tree, { withFileTypes: true, recursive: true })
    .filter(entry => entry.isFile())
    .map(entry => join(entry.parentPath, entry.name))
    .filter(path => (lstatSync(path).mode & 0o111 || /\.so[.\d]*$/.test(path)) && isProgram(path))
  const said = tool('binutils', 'readelf', ['-dW', ...files], { maxBuffer: 2 ** 26 })
  const there = new Set(readdirSync(tree, { recursive: true }).map(path => basename(path)))
  const missing = [...said.matchAll(/\(NEEDED\).*\[(.+)\]/g)].map(found => found[1]).filter(name => !there.has(name))
  if (missing.length > 0)
    throw new Error(
      `E_IMAGE: the system lacks libraries: ${[...new Set(missing)].join(', ')}: name their package in PACKAGES`,
    )
}

function isProgram(path) {
  const head = Buffer.alloc(4)
  const fd = openSync(path, 'r')
  readSync(fd, head)
  closeSync(fd)
  return head.equals(Buffer.from('\x7fELF'))
}

/** Units that are enabled, besides those that systemd enables itself. */
const UNITS = [
  'chrony.service',
  'os-node-confirm.path',
  'os-node-firewall.path',
  'os-node-forget-login.service',
  'os-node-setup.service',
  'os-node-slots.service',
  'os-node-ssh.service',
  'os-node-trial.timer',
  'os-node-update.path',
  'os-node-welcome.service',
  'os-node.service',
  'systemd-networkd.service',
  'systemd-networkd-wait-online.service',
  'systemd-resolved.service',
]

/** The configuration that a first boot begins with: the shipped one, with the page open to the network, encrypted. */
function boardConfig(path) {
  const config = JSON.parse(readFileSync(path, 'utf8'))
  Object.assign(config.RESOURCES.service_plugins.web_user, { host: '0.0.0.0', port: 443 })
  config.web_user.tls = 'self_signed'
  writeFileSync(path, `${JSON.stringify(config, null, 2)}\n`)
}

/** Lays the system out in the empty folder `tree`; `deb` is os-node's package, `keys` sign updates, `trial` is another time for a new version to work. Its kernel's version. */
export function makeSystem(root, tree, { deb, keys, trial, say }) {
  const base = baseSystem(root, say)
  cpSync(base, tree, { recursive: true, verbatimSymlinks: true })
  const [release] = readdirSync(join(tree, 'usr/lib/modules'))
  setUp(tree)
  for (const path of matching(tree, LEFT_OUT)) rmSync(join(tree, path), { recursive: true, force: true })
  keepModules(tree, release)
  dropOwnersRights(tree)
  tool('dpkg', 'dpkg-deb', ['-x', deb, tree])
  const own = join(tree, 'usr/share/os-node/etc')
  mkdirSync(join(own, '..'), { recursive: true })
  renameSync(join(tree, 'etc/os-node'), own)
  boardConfig(join(own, 'Config.json'))
  mkdirSync(join(tree, 'etc/os-node'))
  cpSync(join(root, 'src/build/image/root'), tree, { recursive: true, verbatimSymlinks: true })
  symlinkSync('os-node', join(tree, 'usr/bin/os-node-update'))
  if (trial) {
    const timer = join(tree, 'usr/lib/systemd/system/os-node-trial.timer')
    writeFileSync(timer, readFileSync(timer, 'utf8').replace(/^OnBootSec=.*$/m, `OnBootSec=${trial}`))
  }
  const trusted = join(tree, 'usr/lib/os-node/update-keys')
  mkdirSync(trusted)
  for (const [at, key] of keys.entries())
    writeFileSync(join(trusted, `${at}.pem`), key.export({ type: 'spki', format: 'pem' }))
  tool('systemd', 'systemd-sysusers', [`--root=${tree}`])
  for (const name of ['passwd-', 'group-', 'shadow-', 'gshadow-', '.pwd.lock'])
    rmSync(join(tree, 'etc', name), { force: true })
  for (const name of ['data', 'boot']) mkdirSync(join(tree, name), { recursive: true })
  rmSync(join(tree, 'etc/resolv.conf'), { force: true })
  symlinkSync('../run/systemd/resolve/stub-resolv.conf', join(tree, 'etc/resolv.conf'))
  tool('systemd', 'systemctl', [`--root=${tree}`, 'enable', ...UNITS])
  tool('systemd', 'systemctl', [`--root=${tree}`, 'set-default', 'multi-user.target'])
  checkLibraries(tree)
  return { base, release }
}
