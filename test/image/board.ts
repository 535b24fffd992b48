// A card of the image for the emulated board, and the board itself: qemu with U-Boot, which reads the card as on a real board.
import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process'
import { copyFileSync, mkdtempSync, readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { get, type Server } from 'node:http'
import { request } from 'node:https'
import { createRequire } from 'node:module'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { createInterface } from 'node:readline'
import type { TLSSocket } from 'node:tls'
import { freePort, freeUdpPort, removeDir, root, until as untilIn } from '../lib/gateway'
import { type ServedDisk, serveDisk } from '../lib/nbd'
import { type Cut, VolatileDisk } from '../lib/volatile-disk'
import { serveFiles } from './files-server'
import { BUILT_AT, imageOf, laterUpdate, writeUboot } from './shared-image'

export const MIB = 2 ** 20
export const BOOT_MS = 600_000
/** where the partitions of the card begin */
export const PLACES = { start: MIB, bootA: 17 * MIB, bootB: 65 * MIB, rootA: 114 * MIB, data: 372 * MIB }

/** for the kernel of the first slot: programs and libraries lie at the same addresses in each process */
const SAME_PLACES = 'norandmaps'

/** Waits like `until` of gateway.ts, for as long as an emulated board may take for anything on a busy machine; every question takes its processor. */
export const until: typeof untilIn = (what, ask, ms = BOOT_MS) => untilIn(what, ask, ms, 2000)

interface UpdateWriter {
  writeUpdate(to: string, about: object, files: object, key: string): number
}

export interface Answer {
  status: number
  text: string
  fingerprint: string
}

/** The options of the emulator, up to the card and the network `n`. */
export interface Machine {
  readonly args: readonly string[]
  /** how the card is attached */
  readonly drive: string
  readonly devices: readonly string[]
}

/** One running board. */
export interface Power {
  /** output of its serial console so far */
  said(): string
  /** Whether the emulator has exited: a board that restarts does so if `machine` has -no-reboot. */
  ended(): boolean
  /** A command for the emulator itself. */
  tell(command: string): Promise<void>
  /** Unplugs the network cable, or plugs it in. */
  cable(plugged: boolean): Promise<void>
  /** What happened to the unflushed writes of the card; nothing is lost unless loseUnflushed was called. */
  cut(): Promise<Cut>
}

export class Board {
  readonly place = mkdtempSync(join(tmpdir(), 'os-node-image-'))
  readonly card = join(this.place, 'card.img')
  cardBytes = 1024 * MIB
  /** more options of the emulator */
  extra: readonly string[] = []
  /** more options of its network, each with a comma after it */
  network = ''
  /**
   * The kernel gets a seed for KASLR, as on a real board, and so has page tables of its own (KPTI). The emulator then loses what it translated
   * at each system call: a start takes twice the time. Programs lie at random addresses, as on a real board, too; else each at the same ones
   * (norandmaps): the emulator uses what it translated for the one before.
   */
  separated = false
  /** Processors: with more than one the emulator takes a fifth to a third more time for the same work, which counts where two boards run at a time. */
  cores = process.env.OS_NODE_IMAGE === 'all' ? 1 : 2
  /** The system is compressed as in the image that `npm run image` makes: blocks of another size take other memory. */
  shipped = false
  /** A device at its serial port sends all the time until the kernel starts. */
  noise = false
  /** The board has a GPIO chip, which the emulator has only without ACPI. */
  pins = false
  /** the machine of the next start */
  machine: () => Machine = () => this.#virt()
  readonly #running = new Set<Power>()
  readonly #ssh = join(this.place, 'id')
  /** the address for packets to the board, once its receiver listens on 8080 */
  packets = 0
  /** the folder of the image */
  #made = ''
  #disk: VolatileDisk | undefined
  #served: ServedDisk | undefined
  #random: () => number = () => 0
  readonly #uboot = join(this.place, 'u-boot.bin')
  #port = 0
  #plainPort = 0
  #sshPort = 0

  constructor(readonly kind = 'qemu-virt') {}

  /** Makes the image, and a card as a user has it: larger than the image, with an os-node.conf of the user. `trial`: see makeImage. */
  async make(conf: string, trial: string): Promise<void> {
    execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', this.#ssh])
    await writeUboot(this.#uboot)
    this.#made = await imageOf(this.kind, trial, this.place, this.shipped)
    this.#port = await freePort()
    this.#plainPort = await freePort()
    this.#sshPort = await freePort()
    this.packets = await freeUdpPort()
    this.insertNewCard(conf)
  }

  get image(): string {
    return join(this.#made, `os-node-${this.kind}-1.2.3.img`)
  }

  /** the page, for a browser that takes `greenhouse-1.local` for this machine */
  get url(): string {
    return `https://greenhouse-1.local:${this.#port}`
  }

  insertNewCard(conf: string): void {
    copyFileSync(this.image, this.card)
    truncateSync(this.card, this.cardBytes)
    this.write('os-node.conf', `${conf}ssh_key=${readFileSync(`${this.#ssh}.pub`, 'utf8')}`)
    if (!this.separated) this.addToCommandLine(PLACES.bootA, SAME_PLACES)
  }

  /** From now on the card has a volatile cache, and a power cut loses a part of it, by `random`; the result of `power` says what was lost. */
  async loseUnflushed(random: () => number): Promise<VolatileDisk> {
    const path = join(this.place, 'disk.sock')
    this.#served?.close()
    this.#disk?.close()
    const disk = new VolatileDisk(this.card)
    this.#disk = disk
    this.#served = await serveDisk(path, disk)
    this.#random = random
    return disk
  }

  /** The path of a copy of the file `name` of the partition at `place`. Throws if the partition has no such file. */
  takeOut(place: number, name: string): string {
    const to = join(this.place, name)
    execFileSync('mcopy', ['-o', '-i', `${this.card}@@${place}`, `::${name}`, to], { stdio: 'pipe' })
    return to
  }

  /** A file of the start partition. Throws if it does not exist. */
  read(name: string): string {
    return readFileSync(this.takeOut(PLACES.start, name), 'utf8')
  }

  write(name: string, content: string | Uint8Array): void {
    writeFileSync(join(this.place, name), content)
    execFileSync('mcopy', ['-o', '-i', `${this.card}@@${PLACES.start}`, join(this.place, name), `::${name}`])
  }

  /** Fills each free cluster of the start partition with `text`, as removed files leave it; `stays`: in a file that stays. */
  fillFreeSpace(text: string, stays = false): void {
    const partition = ['-i', `${this.card}@@${PLACES.start}`]
    const said = execFileSync('mdir', [...partition, '::'], { encoding: 'utf8' })
    const free = Number(/([\d ]+) bytes free/.exec(said)![1]!.replaceAll(' ', ''))
    this.write('removed', text.repeat(Math.ceil(free / text.length)).slice(0, free))
    if (!stays) execFileSync('mdel', [...partition, '::removed'])
  }

  /** Adds `words` to the kernel's command line of the slot whose boot partition is at `place`. */
  addToCommandLine(place: number, words: string): void {
    const path = this.takeOut(place, 'cmdline.txt')
    writeFileSync(path, `${readFileSync(path, 'utf8').trimEnd()} ${words}\n`)
    execFileSync('mcopy', ['-o', '-i', `${this.card}@@${place}`, path, '::cmdline.txt'])
  }

  #virt(): Machine {
    const kind = `virt,${this.pins ? 'acpi=off,' : ''}dtb-randomness=${this.separated ? 'on' : 'off'}`
    const args = ['-M', kind, '-cpu', 'cortex-a72', '-smp', String(this.cores), '-m', '512']
    return {
      args: [...args, '-nographic', '-bios', this.#uboot],
      drive: 'if=none,id=card',
      devices: ['virtio-blk-pci,drive=card', 'virtio-net-pci,netdev=n,romfile=', 'i6300esb'],
    }
  }

  power(): Power {
    const monitor = join(this.place, 'monitor.sock')
    const { args, drive, devices } = this.machine()
    const machine = [...args, '-monitor', `unix:${monitor},server=on,wait=off`]
    const volatile = this.#disk
    const file = volatile
      ? `file.driver=nbd,file.server.type=unix,file.server.path=${join(this.place, 'disk.sock')},cache=writeback`
      : `file=${this.card},discard=unmap`
    const disk = ['-drive', `${file},format=raw,${drive}`]
    const ports = [
      `tcp:127.0.0.1:${this.#port}-:443`,
      `tcp:127.0.0.1:${this.#plainPort}-:80`,
      `tcp:127.0.0.1:${this.#sshPort}-:22`,
      `udp:127.0.0.1:${this.packets}-:8080`,
    ].map(port => `hostfwd=${port}`)
    const network = [
      '-netdev',
      `user,id=n,${this.network}${ports.join()}`,
      ...devices.flatMap(device => ['-device', device]),
    ]
    const child = spawn('qemu-system-aarch64', [...machine, ...disk, ...network, ...this.extra], {
      stdio: ['pipe', 'pipe', 'pipe'],
    })
    let text = ''
    let ended = false
    for (const stream of [child.stdout, child.stderr]) stream.on('data', chunk => (text += chunk))
    child.stdin.on('error', () => {})
    const noise = setInterval(() => {
      if (!this.noise || ended || text.includes('Starting kernel')) clearInterval(noise)
      else child.stdin.write('$GPRMC,,V,,,,\r\n')
    }, 20)
    child.once('close', () => (ended = true))
    const power: Power = {
      said: () => text.replaceAll('\r', ''),
      ended: () => ended,
      tell: async command => {
        const said = await until('the monitor of the emulator', () => tell(monitor, command))
        if (/error/i.test(said)) throw new Error(said)
      },
      cable: plugged => power.tell(`set_link n ${plugged ? 'on' : 'off'}`),
      cut: async () => {
        if (!this.#running.delete(power)) return { kept: 0, dropped: 0, torn: 0 }
        this.#served?.disconnect()
        if (!ended)
          await new Promise<void>(resolve => {
            child.once('close', () => resolve())
            child.kill('SIGKILL')
          })
        return volatile?.cut(this.#random) ?? { kept: 0, dropped: 0, torn: 0 }
      },
    }
    this.#running.add(power)
    return power
  }

  /** A request to the page of the board. */
  ask(
    path: string,
    {
      token = '',
      post,
      put,
      patience = 60_000,
    }: { token?: string; post?: object; put?: object; patience?: number } = {},
  ): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const headers = {
        host: 'greenhouse-1.local',
        ...(token && { 'x-admin-token': token }),
        ...((post ?? put) && { 'content-type': 'application/json' }),
      }
      const method = post ? 'POST' : put ? 'PUT' : 'GET'
      const place = { host: '127.0.0.1', port: this.#port, path, method, headers }
      const asked = request({ ...place, rejectUnauthorized: false, timeout: patience }, res => {
        const { fingerprint256: fingerprint } = (res.socket as TLSSocket).getPeerCertificate()
        let text = ''
        res
          .on('data', chunk => (text += chunk))
          .on('end', () => resolve({ status: res.statusCode!, text, fingerprint }))
      })
      asked.once('error', reject).once('timeout', () => asked.destroy(new Error('no answer')))
      asked.end((post ?? put) && JSON.stringify(post ?? put))
    })
  }

  /** The redirect target of the board's plain port for `path`; null: it answers 200. */
  redirected(path: string): Promise<string | null> {
    return new Promise((resolve, reject) => {
      const place = { host: '127.0.0.1', port: this.#plainPort, path, headers: { host: 'greenhouse-1.local' } }
      get(place, res => {
        res.resume()
        if (res.statusCode === 200 || res.headers.location) resolve(res.headers.location ?? null)
        else reject(new Error(`HTTP ${res.statusCode}`))
      }).once('error', reject)
    })
  }

  /** Uploads a file of `place` as the page does it, and requests its installation. */
  async uploadUpdate(name: string, token: string): Promise<void> {
    const bytes = readFileSync(join(this.place, name))
    const accepted = async (what: object): Promise<void> => {
      const { status, text } = await this.ask('/api/update', { token, ...what })
      if (status !== 200) throw new Error(`${status} ${text}`)
    }
    for (let offset = 0; offset < bytes.length; offset += MIB / 2)
      await accepted({ put: { offset, data: bytes.toString('base64', offset, offset + MIB / 2) } })
    await accepted({ post: { size: bytes.length } })
  }

  health(): Promise<boolean> {
    return this.ask('/health', { patience: 10_000 }).then(
      ({ status }) => status === 200,
      () => false,
    )
  }

  #sshArguments(command: string): string[] {
    const options = ['BatchMode=yes', 'StrictHostKeyChecking=no', 'UserKnownHostsFile=/dev/null', 'ConnectTimeout=20']
    const args = ['-q', '-i', this.#ssh, '-p', String(this.#sshPort), ...options.flatMap(option => ['-o', option])]
    return [...args, 'root@127.0.0.1', command]
  }

  /** A command of the remote shell that runs until the power is cut; `onLine`: its output. */
  follow(command: string, onLine: (line: string) => void): ChildProcess {
    const child = spawn('ssh', this.#sshArguments(command), { stdio: ['ignore', 'pipe', 'ignore'] })
    createInterface({ input: child.stdout }).on('line', onLine)
    return child
  }

  /** Runs a command by the remote shell: its output and exit code; 255 if the board does not answer. */
  shell(command: string): Promise<{ code: number; text: string }> {
    return new Promise(resolve => {
      execFile('ssh', this.#sshArguments(command), { timeout: BOOT_MS }, (error, stdout, stderr) => {
        resolve({ code: error ? Number(error.code ?? 255) : 0, text: stdout + stderr })
      })
    })
  }

  /** The running version and the result of the last update, once the board answers. */
  slots(want: (slots: SlotsAnswer) => boolean): Promise<SlotsAnswer> {
    return until('the slots', async () => {
      // the answer of `os-node slots --json`, without a start of Node
      const { code, text } = await this.shell('cat /run/os-node-slots.json')
      const slots = code === 0 && (JSON.parse(text) as SlotsAnswer)
      return slots && want(slots) ? slots : null
    })
  }

  /** Writes an update of the same system with another version; `edit`: [what, instead] of the kernel's command line, of one length; `kind`: the board it is for. */
  update(version: string, edit: [string, string] = ['', ''], kind = this.kind): string {
    const { writeUpdate } = createRequire(join(root, 'package.json'))('./dist/os-node-update.js') as UpdateWriter
    const image = readFileSync(this.image)
    const part = (from: number, mib: number, name: string): Buffer => {
      const bytes = Buffer.from(image.subarray(from, from + mib * MIB))
      let end = bytes.length
      while (bytes[end - 1] === 0) end--
      const used = bytes.subarray(0, Math.ceil(end / 4096) * 4096)
      writeFileSync(join(this.place, name), used)
      return used
    }
    const boot = part(PLACES.bootA, 48, 'boot')
    part(PLACES.rootA, 128, 'root')
    for (const [what, instead] of [['os_node.version=1.2.3', `os_node.version=${version}`], edit] as const) {
      if (what.length !== instead.length) throw new Error(`${what} and ${instead} differ in length`)
      const at = boot.indexOf(what)
      if (at < 0) throw new Error(`no ${what} in the command line`)
      boot.write(instead, at, 'latin1')
    }
    writeFileSync(join(this.place, 'boot'), boot)
    const digit = boot.indexOf('os_node.partition=5') + 'os_node.partition='.length
    const about = { board: kind, version, built_at: BUILT_AT / 1000, partition_at: digit }
    const to = `os-node-${this.kind}-${version}.update`
    const files = { boot: join(this.place, 'boot'), root: join(this.place, 'root') }
    writeUpdate(join(this.place, to), about, files, readFileSync(join(this.#made, 'key'), 'utf8'))
    return to
  }

  /** The update that a later build writes (laterUpdate), in `place`. */
  async later(version: string, trial: string): Promise<string> {
    const path = await laterUpdate(this.#made, this.kind, trial, version)
    copyFileSync(path, join(this.place, basename(path)))
    return basename(path)
  }

  /** A server for files of `place`, at the board's name for this machine; `sent`: bytes of each answer. */
  serve(sent: number[]): Promise<{ url: string; server: Server }> {
    return serveFiles(this.place, sent, '10.0.2.2')
  }

  async remove(): Promise<void> {
    await Promise.all([...this.#running].map(power => power.cut()))
    this.#served?.close()
    this.#disk?.close()
    removeDir(this.place)
  }
}

/** The answer of the emulator's monitor to `command`; null while it does not answer yet. */
function tell(path: string, command: string): Promise<string | null> {
  return new Promise(resolve => {
    let text = ''
    const socket = connect(path, () => socket.write(`${command}\n`))
    socket.on('data', chunk => {
      text += chunk
      // its greeting ends with the prompt, and so does the answer
      if (text.split('(qemu) ').length > 2) socket.destroy()
    })
    socket.on('error', () => {}).on('close', () => resolve(text || null))
  })
}

export interface SlotsAnswer {
  slots: { slot: string; version: string | null; running: boolean; state: string }[]
  last_update?: { version: string; outcome: string; reason?: string }
  last_check?: { source: string; result: string; detail: string }
}
