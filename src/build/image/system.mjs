// Makes the root file system of a slot: Debian's packages, unpacked without running their scripts, the package of os-node, the files of
// src/build/image/root, and what the scripts of the packages would have set up. Files that an appliance does not need are removed.
// What fails: a package that cannot be downloaded, a missing tool (E_TOOL).
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
  readlinkSync,
  readSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { madeOnce, sha256Of, tool } from '../node-runtime.mjs'
import { modulesDep, takeModules } from './kernel.mjs'
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

/** Removed: documentation, languages, the package manager, Perl, and programs for terminals and desktops. */
const LEFT_OUT = [
  'boot/*',
  'etc/{pam.d,security,adduser.conf,apparmor.d,apt,cron.d,default,deluser.conf,dhcp,dpkg,init.d,initramfs-tools,kernel,logrotate.d,network,ppp,rc*.d,runit,sv,ucf.conf,ufw,update-motd.d,xdg}',
  'usr/bin/{apt*,b2sum,basenc,chcon,chmem,csplit,dir,lscpu,lsipc,lslocks,lslogins,lsns,lsmem,mt-gnu,nstat,numfmt,partx,pinky,pr,ptx,rdma,runcon,rtstat,vdir,dropbearconvert,dbclient,lastlog*,slabtop,ss,systemd-{ask*,cgtop,confext,creds,delta,detect*,firstboot,hwdb,id128,inhibit,mount,path,socket*,stdio*,sysext,tty*,umount,vpick},varlinkctl,watch,deb-*,debconf*,dpkg*,perl*,dbus-*,gpasswd,chage,chfn,chsh,expiry,passwd,newgrp,sg,systemd-analyze,localedef,kernel-install,deb-systemd-*,ucf*,initctl,mkinitramfs,lsinitramfs,unmkinitramfs,linux-*,sensible-*,select-editor,run0}',
  'usr/sbin/{agetty,badblocks,blkzone,chmem,e2image,e4*,genl,pam*,rtacct,rtmon,shadowconfig,unix_*,vdpa,faillock,mkhomedir*,arpd,getty,cfdisk,fdisk,chcpu,ctrlaltdel,delpart,addpart,fsfreeze,fstrim,ldattach,pivot_root,raw,readprofile,resizepart,rtcwake,runuser,sulogin,wipefs,zramctl,add*,dbus-*,user*,group*,gr*,pw*,ch*passwd,newusers,vi*,del*,dpkg*,rdma,tc,dcb,tipc,devlink,bridge,debugfs,e2scrub*,update-*,wpa_action,cryptdisks*}',
  'usr/lib/{apt,debug,dpkg,dracut,klibc*,u-boot,raspi-firmware,initramfs-tools,linux-image-*,mime,networkd-dispatcher,NetworkManager,ifupdown,pm-utils,runit-helper,lsb,init,kernel,dbus-1.0}',
  'usr/lib/systemd/{boot,user,ntp-units.d,system-environment-generators}',
  'usr/lib/systemd/system/{dbus*,getty*,autovt*,console-getty*,container-getty*,*cryptdisks*,e2scrub*,initrd*,rescue*,emergency.service,ldconfig*,proc-sys-fs-binfmt*,dev-hugepages*,quota*,user*,*ask-password*,chronyd-restricted*,chrony-{dnssrv,wait}*,hwclock*}',
  'usr/lib/systemd/system/sys-{kernel-{config,debug,tracing},fs-fuse-connections}.mount',
  'usr/lib/systemd/system/systemd-{homed,pcr*,tpm*,userdb*,storagetm,hibernate*,suspend*,hybrid*,bsod,boot-*,repart,sysext*,confext*,firstboot,binfmt,quotacheck*,hwdb*,journald-audit*,journal-catalog*,journal-gateway*,machine*,mountfsd*,nsresourced*,coredump*,creds*,logind*,sysusers*,update-*,user-*,pstore*}*',
  'usr/lib/systemd/system/{sysinit,multi-user,graphical,sockets,timers,local-fs}.target.wants/{dbus*,getty*,e2scrub*}',
  'usr/lib/systemd/system/{dev-mqueue.mount,systemd-{journal-flush,network-generator,networkd-persistent-storage,remount-fs,udev-load-credentials}.service}',
  'usr/lib/systemd/system-generators/systemd-{getty,gpt-auto,hibernate-resume,rc-local,run,ssh,system-update,sysv,tpm2}-generator',
  'usr/lib/udev/{hwdb*,cdrom_id,dmi_memory_id,fido_id,iocost,mtd_probe,v4l_id}',
  'usr/lib/udev/rules.d/{60-{autosuspend,cdrom_id,dmi-id,drm,evdev,fido-id,infiniband,input-id,persistent-{alsa,input,storage-{mtd,tape},v4l},sensor},64-*,70-{camera,joystick,memory,mouse,power-switch,touchpad,uaccess},71-*,73-seat*,75-probe_mtd,78-*,80-debian-compat,81-*,90-*,96-*}.rules',
  'usr/lib/firmware/{brcm/{bcm4329*,brcmfmac43430a0*,bcm43xx*,brcmfmac{432*,433*,4350*,4354*,4356*,4358*,4366*,437*,43569*,43570*,43602*,4339*,43340*,43362*,43143*,4329*,4330*,4334*,4335*,43236*,43242*,43241*},brcmsmac*,*.bin.old},cypress/cyfmac{4339*,43340*,43362*,4354*,4356*,43570*,4373*,54591*,43012*}}',
  'usr/lib/aarch64-linux-gnu/{gconv,krb5,perl*,security,libdb-*,liblastlog2*,libsemanage*}',
  'usr/share/{apport,base-files,base-passwd,bash-completion,bug,debconf,dict,doc,doc-base,fish,info,initramfs-tools,lintian,locale,man,mime,openssh,pam*,perl*,pixmaps,polkit-1,runit,ucf,xml,zoneinfo,zsh}',
  'var/{lib,cache,log,backups}/*',
]

/** The kernel's modules that stay; the others are for servers, desktops and boards of other makers. */
const MODULES = [
  'arch/arm64/crypto',
  'crypto',
  'drivers/{base,bluetooth,char/hw_random,clk/bcm,clk/clk-rp1.ko*,cpufreq,dma,dma-buf,firmware,gpio,i2c,iio,leds,mailbox,mfd,misc/eeprom,misc/rp1,mux,nvmem,pinctrl,pps,ptp,pwm,regulator/{fixed,gpio-regulator,pwm-regulator,rpi-*}.ko*,reset,rtc,spi,thermal,tty,virtio,w1,watchdog}',
  'drivers/block/{loop,virtio_blk,zram}*',
  'drivers/gpu/drm/{*.ko*,display,tiny,vc4,scheduler,solomon,virtio}',
  'drivers/hid/{hid,hid-cp2112,hid-generic,hid-mcp2221}.ko*',
  'drivers/hid/usbhid',
  'drivers/hwmon/*.ko*',
  'drivers/irqchip/irq-bcm2712*.ko*',
  'drivers/input/{*.ko*,keyboard/gpio_keys*,misc/rotary*}',
  'drivers/md/{dm-mod,dm-verity,dm-bufio}.ko*',
  'drivers/mmc/core',
  'drivers/mmc/host/{bcm2835,cqhci,mmc_spi,of_mmc_spi,sdhci,sdhci-brcmstb,sdhci-iproc,sdhci-pltfm}.ko*',
  'drivers/net/{*.ko*,can,mdio,usb,pcs}',
  'drivers/net/ethernet/{adi,broadcom/genet,cadence,microchip/enc*,wiznet}',
  'drivers/net/phy/{*bcm*,ax88796b*,broadcom*,fixed*,libphy*,mdio*,microchip.ko*,microchip_t1*,phylink*,realtek*,sfp*,smsc*}',
  'drivers/net/wireless/{broadcom/brcm80211/{brcmfmac,brcmutil},virtual}',
  'drivers/scsi/{scsi_common,scsi_mod,sd_mod}.ko*',
  'drivers/usb/{*.ko*,class,common,core,dwc2,dwc3,gadget/udc,host,phy,roles,serial,storage}',
  'drivers/video',
  'fs/{ext4,fat,jbd2,mbcache.ko*,nls,squashfs,exfat,autofs,fuse}',
  'lib/{[!t]*,t[!e]*}',
  'net/{802,8021q,bluetooth,can,core,mac80211,rfkill,wireless}',
  'net/ipv4/{*.ko*,netfilter/n*}',
  'net/ipv6/{*.ko*,netfilter/n*}',
  'net/netfilter/{nf_*,nfnetlink*,nft_*}',
]

/**
 * Modules among them that do not stay, unless another needs them: of processors and computers of other makers, and ciphers, alphabets and trackers
 * of connections that nothing here uses.
 */
const FOREIGN =
  /(?:^|[/_-])(?:qcom|geni|msm|spmi|mtk|mt\d{4}|mediatek|rockchip|rk\d{3}|imx|lpi2c|tegra\d*|meson|sun\d+i|exynos|samsung|hisi|omap\d?|rcar|rzg?\d?[lv]?\d?|stm32|zynq|zynqmp|xilinx|mvebu|armada|sprd|aspeed|fsl|xgene|cros|acpi|ipmi|nct6\d{3}|w83\w+|it87|f718\w+|smsc47\w+|sch5\w+|dme1737|pc87\w+|ptp_ocp|mhi|soundwire|twofish|blowfish|camellia|cast[56]?|serpent|anubis|khazad|tea|seed|sm[34]|aria|wp512|streebog|rmd160|fcrypt|vmac|adiantum|h323|sip|amanda|irc|pptp|sane|snmp|tftp|netbios|nat)(?=[/_.-])|nls_(?:cp(?!437|850|1252)\w+|euc-jp|koi8\S*|mac-\S*|iso8859-(?!1\.|15)\d+)\.ko/

const LIBRARIES = 'usr/lib/aarch64-linux-gnu'

/** Libraries that systemd and the C library load by name at run time: no program is linked with them. */
const OPENED = /^lib(acl|blkid|bpf|cap|crypt|gcc_s|idn2|kmod|lz4|lzma|mount|nss_\w+|resolv|seccomp|zstd)\.so/

/** Users with fixed ids: their files on the data partition stay there over updates. */
const USERS = ['u os-node 800', 'u _chrony 801 - /var/lib/chrony']

/** The folder with Debian's packages, unpacked; callers must not change it. `newer`: those that come from backports. */
export const baseSystem = (root, say, newer) =>
  layOut(root, { label: 'base', packages: PACKAGES, newer, size: 130, say })

/** The paths below `dir` that match `patterns` (of bash). */
const matching = (dir, patterns) =>
  tool('bash', 'bash', ['-O', 'nullglob', '-c', `cd "$0" && printf '%s\\n' ${patterns.join(' ')}`, dir])
    .split('\n')
    .filter(path => path && existsSync(join(dir, path)))

/**
 * Keeps only the modules of MODULES and those that they need, with a new index. They are unpacked, since squashfs packs them better together
 * than each is packed alone.
 */
function keepModules(tree, release) {
  const folder = join(tree, 'usr/lib/modules', release)
  const all = `${folder}/kernel-all`
  tool('kmod', 'depmod', ['-b', tree, release])
  const needs = modulesDep(folder)
  renameSync(join(folder, 'kernel'), all)
  const kept = new Set()
  for (const path of matching(all, MODULES)) {
    const files = lstatSync(join(all, path)).isDirectory()
      ? readdirSync(join(all, path), { recursive: true }).map(name => join(path, name))
      : [path]
    for (const file of files.filter(name => name.includes('.ko') && !FOREIGN.test(name)))
      for (const name of [`kernel/${file}`, ...needs.get(`kernel/${file}`)]) kept.add(name)
  }
  for (const path of kept) cpSync(join(folder, path.replace('kernel', 'kernel-all')), join(folder, path))
  rmSync(all, { recursive: true })
  const packed = [...kept].filter(path => path.endsWith('.xz'))
  if (packed.length > 0) tool('xz-utils', 'xz', ['-d', ...packed], { cwd: folder })
  tool('kmod', 'depmod', ['-b', tree, release])
}

/**
 * Adds the accounts of the packages, or of `more`. systemd-sysusers takes all rights from the password files; the owner gets them back, so
 * that a build without root can read them.
 */
function addUsers(tree, ...more) {
  tool('systemd', 'systemd-sysusers', [`--root=${tree}`, ...more])
  for (const name of ['shadow', 'gshadow']) chmodSync(join(tree, 'etc', name), 0o600)
}

/** Does what the scripts of the packages do when they are installed: makes users and generated files. */
function setUp(tree) {
  const etc = join(tree, 'etc')
  for (const name of ['passwd', 'group']) cpSync(join(tree, `usr/share/base-passwd/${name}.master`), join(etc, name))
  writeFileSync(
    join(etc, 'passwd'),
    readFileSync(join(etc, 'passwd'), 'utf8').replace(/^root:.*/m, 'root:x:0:0:root:/root:/bin/sh'),
  )
  addUsers(tree, '--inline', ...USERS)
  // systemd before 257 does not know `u!`, a locked account; no account of the image has a password
  const accounts = join(tree, 'usr/lib/sysusers.d')
  for (const name of readdirSync(accounts)) {
    const text = readFileSync(join(accounts, name), 'utf8')
    writeFileSync(join(accounts, name), text.replace(/^u!/gm, 'u'))
  }
  addUsers(tree)
  writeFileSync(join(etc, 'machine-id'), '')
}

/**
 * Writes the names and versions of the system's packages, and the texts of their licences, packed since they are long. Both stay in the image
 * although the other documentation is removed.
 */
function keepLicences(base, tree) {
  const docs = join(base, 'usr/share/doc')
  const to = join(tree, 'usr/share/doc/os-node')
  mkdirSync(to, { recursive: true })
  const names = readdirSync(docs).sort()
  const packages = names.flatMap(name => {
    const log = ['changelog.Debian.gz', 'changelog.gz'].map(file => join(docs, name, file)).find(existsSync)
    const version = log && /\((.*?)\)/.exec(gunzipSync(readFileSync(log)).toString('latin1'))?.[1]
    return version ? [`${name} ${version}\n`] : []
  })
  writeFileSync(join(to, 'packages.txt'), packages.join(''))
  const texts = names
    .map(name => join(docs, name, 'copyright'))
    .filter(path => existsSync(path))
    .map(path => `==> ${basename(dirname(path))} <==\n${readFileSync(path, 'latin1')}\n`)
  writeFileSync(join(to, 'copyright.debian'), texts.join(''), 'latin1')
  tool('xz-utils', 'xz', ['-f', '-9', join(to, 'copyright.debian')])
}

/** Programs that busybox has too, but whose options, as systemd uses them, only the originals know. */
const KEPT = ['busybox', 'ip', 'mount', 'umount']

/** Replaces each program of usr/bin that busybox also implements by a link to busybox. */
function useBusybox(tree) {
  const bin = join(tree, 'usr/bin')
  const bytes = readFileSync(join(bin, 'busybox'))
  const from = bytes.indexOf('[\0[[\0')
  const applets = bytes.toString('latin1', from, bytes.indexOf('\0\0', from)).split('\0')
  for (const name of applets) {
    const path = join(bin, name)
    if (KEPT.includes(name) || !existsSync(path) || lstatSync(path).isSymbolicLink() || !isProgram(path)) continue
    rmSync(path)
    symlinkSync('busybox', path)
  }
}

/** Clears setuid and setgid of all programs: the image does not need them. */
function dropOwnersRights(tree) {
  for (const entry of readdirSync(tree, { withFileTypes: true, recursive: true })) {
    const path = join(entry.parentPath, entry.name)
    if (entry.isFile() && lstatSync(path).mode & 0o6000) chmodSync(path, lstatSync(path).mode & 0o777)
  }
}

/** Removes the libraries that no program is linked with. Throws E_IMAGE if a program needs a library that is missing. */
function keepLibraries(tree) {
  const files = readdirSync(tree, { withFileTypes: true, recursive: true })
    .filter(entry => entry.isFile())
    .map(entry => join(entry.parentPath, entry.name))
    .filter(path => (lstatSync(path).mode & 0o111 || /\.so[.\d]*$/.test(path)) && isProgram(path))
  const said = tool('binutils', 'readelf', ['-dW', ...files], { maxBuffer: 2 ** 26 })
  const needs = new Map(
    said
      .split(/^File: /m)
      .slice(1)
      .map(part => [
        part.slice(0, part.indexOf('\n')),
        [...part.matchAll(/\(NEEDED\).*\[(.+)\]/g)].map(found => found[1]),
      ]),
  )
  const folder = join(tree, LIBRARIES)
  const used = new Set()
  const use = name => {
    if (used.has(name)) return
    used.add(name)
    const path = join(folder, name)
    if (!existsSync(path)) {
      if (!['usr/lib', `${LIBRARIES}/systemd`].some(other => existsSync(join(tree, other, name))))
        throw new Error(`E_IMAGE: the system lacks the library ${name}: name its package in PACKAGES`)
    } else if (lstatSync(path).isSymbolicLink()) use(basename(readlinkSync(path)))
    else needs.get(path)?.forEach(use)
  }
  const names = readdirSync(folder).filter(name => /\.so[.\d]*$/.test(name))
  for (const name of names) if (OPENED.test(name)) use(name)
  for (const [path, others] of needs) if (dirname(path) !== folder) others.forEach(use)
  for (const name of names) if (!used.has(name)) rmSync(join(folder, name))
}

function isProgram(path) {
  const head = Buffer.alloc(4)
  const fd = openSync(path, 'r')
  readSync(fd, head)
  closeSync(fd)
  return head.equals(Buffer.from('\x7fELF'))
}

/** Units to enable, besides those that systemd enables itself. */
const UNITS = [
  'chrony.service',
  'os-node-closed.service',
  'os-node-confirm.path',
  'os-node-firewall.path',
  'os-node-forget-login.path',
  'os-node-problems.service',
  'os-node-reset-button.service',
  'os-node-setup.service',
  'os-node-set-wifi.path',
  'os-node-slots.service',
  'os-node-ssh.service',
  'os-node-trial.timer',
  'os-node-update.path',
  'os-node-uplink.service',
  'os-node-welcome.service',
  'os-node.service',
  'systemd-networkd.service',
  'systemd-networkd-wait-online.service',
  'systemd-resolved.service',
]

/** Makes the configuration of the first boot: the shipped one, with the page open to the network, encrypted. */
function boardConfig(path) {
  const config = JSON.parse(readFileSync(path, 'utf8'))
  Object.assign(config.RESOURCES.service_plugins.web_user, { host: '0.0.0.0', port: 443 })
  Object.assign(config.web_user, { tls: 'self_signed', redirect_port: 80 })
  writeFileSync(path, `${JSON.stringify(config, null, 2)}\n`)
}

/** Removes the sources' text, most of the source map: stacks on a board need only files and lines. */
function dropSources(path) {
  const { sourcesContent: _, ...map } = JSON.parse(readFileSync(path, 'utf8'))
  writeFileSync(path, JSON.stringify(map))
}

/** What an image has of Debian, in the empty folder `tree`, from its packages in `base`; `kernel`: a folder with another kernel. */
function takeDebian(base, tree, kernel = base) {
  cpSync(base, tree, { recursive: true, verbatimSymlinks: true })
  const release = takeModules(kernel, tree)
  setUp(tree)
  for (const path of matching(tree, LEFT_OUT)) rmSync(join(tree, path), { recursive: true, force: true })
  keepModules(tree, release)
  useBusybox(tree)
  dropOwnersRights(tree)
  keepLicences(base, tree)
}

/** The same for Debian's kernel, made once for all boards: half of the work of an image. */
function debianFolder(base) {
  const files = [import.meta.filename, join(import.meta.dirname, 'kernel.mjs')]
  const key = sha256Of(files.map(path => readFileSync(path)).join('')).slice(0, 12)
  return madeOnce(`${base}-system-${key}`, fresh => {
    takeDebian(base, fresh)
    // those of earlier sources
    const [folder, prefix] = [dirname(base), `${basename(base)}-system-`]
    for (const name of readdirSync(folder))
      if (name.startsWith(prefix) && !name.startsWith(prefix + key)) rmSync(join(folder, name), { recursive: true })
    chmodSync(fresh, 0o755)
  })
}

/**
 * Makes the system in the empty folder `tree`. `deb`: the package of os-node; `keys`: the image accepts updates signed by these; `trial`: how
 * long a new version may take to work, if not the usual time; `kernel`: a folder with another kernel. Returns the folder of Debian's packages
 * and the version of the kernel.
 */
export function makeSystem(root, tree, { deb, keys, trial, newer, kernel, say }) {
  const base = baseSystem(root, say, newer)
  if (kernel) takeDebian(base, tree, kernel)
  else cpSync(debianFolder(base), tree, { recursive: true, verbatimSymlinks: true })
  const [release] = readdirSync(join(tree, 'usr/lib/modules'))
  tool('dpkg', 'dpkg-deb', ['-x', deb, tree])
  dropSources(join(tree, 'usr/lib/os-node/os-node.js.map'))
  const own = join(tree, 'usr/share/os-node/etc')
  renameSync(join(tree, 'etc/os-node'), own)
  renameSync(join(own, '../Config.json'), join(own, 'Config.json'))
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
  addUsers(tree)
  for (const name of ['passwd-', 'group-', 'shadow-', 'gshadow-', '.pwd.lock'])
    rmSync(join(tree, 'etc', name), { force: true })
  for (const name of ['data', 'boot']) mkdirSync(join(tree, name), { recursive: true })
  // without root these folders were unpacked with other modes
  for (const name of ['tmp', 'var/lock', 'var/tmp']) chmodSync(join(tree, name), 0o1777)
  rmSync(join(tree, 'etc/resolv.conf'), { force: true })
  symlinkSync('../run/systemd/resolve/stub-resolv.conf', join(tree, 'etc/resolv.conf'))
  tool('systemd', 'systemctl', [`--root=${tree}`, 'enable', ...UNITS])
  tool('systemd', 'systemctl', [`--root=${tree}`, 'set-default', 'multi-user.target'])
  keepLibraries(tree)
  return { base, release }
}
