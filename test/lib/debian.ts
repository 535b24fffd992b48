// A separate Debian with its standard packages: downloaded once, kept in the user's cache, unpacked into a folder. One of another processor runs
// by qemu's user mode, whose interpreter the kernel knows in one namespace only (Linux 6.7), so that this machine stays as it is.
// Needs: x64 boards debs
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { removeDir, until } from './gateway'

const MIRROR = 'http://deb.debian.org/debian'
const PATH = '/usr/sbin:/usr/bin:/sbin:/bin'
const env = { PATH, DEBIAN_FRONTEND: 'noninteractive' }
/** by Debian's name of the processor: its release, packages beyond the standard ones, and its emulator with the first bytes of its programs */
const KINDS = {
  amd64: { release: 'bookworm', more: '', emulator: '' },
  armhf: {
    release: 'trixie',
    more: ',nodejs',
    emulator: String.raw`:arm:M::\x7fELF\x01\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x28\x00:\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:/usr/bin/qemu-arm-static:F`,
  },
}

export class Debian {
  #holder: ChildProcess | undefined
  #enter: string[] = []

  private constructor(
    readonly root: string,
    readonly arch: keyof typeof KINDS,
  ) {}

  /** Unpacks one into the new folder `root`. */
  static async make(root: string, arch: keyof typeof KINDS): Promise<Debian> {
    const debian = new Debian(root, arch)
    await debian.#prepare()
    return debian
  }

  async #prepare(): Promise<void> {
    const { release, more, emulator } = KINDS[this.arch]
    if (emulator) await this.#hold(emulator)
    const cache = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'os-node-boards')
    const kept = join(cache, `${release}-${this.arch}-1.tar`)
    if (!existsSync(kept)) {
      mkdirSync(cache, { recursive: true })
      const packages = `--include=init-system-helpers,systemd-standalone-sysusers${more}`
      const key = '--keyring=/usr/share/keyrings/debian-archive-keyring.gpg'
      // it looks for the interpreter where it is not
      const flags = ['--mode=root', '--skip=check/qemu', '--variant=minbase', `--architectures=${this.arch}`]
      const tar = `${kept}.${process.pid}.tar`
      this.#run('mmdebstrap', ...flags, packages, key, release, tar, MIRROR)
      renameSync(tar, kept)
    }
    mkdirSync(this.root)
    // a namespace may not make devices; its mounts end with it
    this.#run('tar', 'xf', kept, '-C', this.root, ...(emulator ? ['--exclude=./dev/*'] : []))
    if (emulator) this.#run('mount', '--rbind', '/dev', join(this.root, 'dev'))
    this.#run('mount', '--rbind', '/proc', join(this.root, 'proc'))
  }

  /** Starts a process in namespaces of its own, where `emulator` is registered. */
  async #hold(emulator: string): Promise<void> {
    const register =
      'mount -t binfmt_misc none /proc/sys/fs/binfmt_misc && cat >/proc/sys/fs/binfmt_misc/register && exec sleep infinity'
    const holder = spawn('unshare', ['--user', '--mount', 'sh', '-c', `read -r start; ${register}`], { stdio: 'pipe' })
    this.#holder = holder
    const proc = `/proc/${holder.pid}`
    await until('the namespace', () => readFileSync(`${proc}/comm`, 'utf8') === 'sh\n')
    for (const map of ['uid_map', 'gid_map']) writeFileSync(`${proc}/${map}`, '0 0 65536')
    holder.stdin.end(`start\n${emulator}`)
    await until('the interpreter', () => readFileSync(`${proc}/comm`, 'utf8') === 'sleep\n')
    this.#enter = ['nsenter', `--target=${holder.pid}`, '--user', '--mount']
  }

  #run(...command: string[]): string {
    const [program, ...args] = [...this.#enter, ...command]
    return execFileSync(program!, args, { encoding: 'utf8', env, stdio: ['ignore', 'pipe', 'pipe'] })
  }

  /** Runs a command in it; returns what it printed. */
  inside(...command: string[]): string {
    return this.#run('chroot', this.root, ...command)
  }

  insideAs(user: string, ...command: string[]): string {
    return this.#run('chroot', `--userspec=${user}:${user}`, this.root, ...command)
  }

  install(path: string): string {
    execFileSync('cp', [path, join(this.root, 'tmp/os-node.deb')])
    return this.inside('dpkg', '-i', '/tmp/os-node.deb')
  }

  /** Lines `KEY=…` of the installed unit. */
  unit(key: string): string {
    const text = readFileSync(join(this.root, 'usr/lib/systemd/system/os-node.service'), 'utf8')
    return new RegExp(`^${key}=(.*)$`, 'm').exec(text)![1]!
  }

  /** The unit's command, run as its user and groups. */
  startUnit(): ChildProcess {
    const groups = `--groups=${this.unit('SupplementaryGroups').replaceAll(' ', ',')}`
    const user = `--userspec=${this.unit('User')}:${this.unit('User')}`
    const [program, ...args] = [...this.#enter, 'chroot', user, groups, this.root, ...this.unit('ExecStart').split(' ')]
    return spawn(program!, args, { env, stdio: 'ignore' })
  }

  remove(): void {
    if (this.#holder) this.#holder.kill('SIGKILL')
    else execFileSync('umount', ['-l', join(this.root, 'proc')])
    removeDir(this.root)
  }
}
