// The register-level SX127x of test/rig/sx127x: compiled on this machine (once per version of its source), run inside the rig
// as a device /dev/spidevX.Y. Models on the same channel receive each other.
// Needs: cc fuse
import { execFileSync, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { root, until } from './gateway'
import { GpioSim } from './gpiosim'

const SOURCES = join(root, 'test/rig/sx127x')

/** The compiled model. Call it on this machine too, before entering the rig: files written inside are lost. */
export function buildModel(): string {
  const files = readdirSync(SOURCES).sort()
  const hash = createHash('sha256')
  for (const file of files) hash.update(readFileSync(join(SOURCES, file)))
  const dir = join(root, '.build')
  const program = join(dir, `sx127x-${hash.digest('hex').slice(0, 16)}`)
  if (existsSync(program)) return program
  mkdirSync(dir, { recursive: true })
  const fuse = execFileSync('pkg-config', ['--cflags', '--libs', 'fuse3'], { encoding: 'utf8' }).trim().split(/\s+/)
  const sources = files.filter(file => file.endsWith('.c')).map(file => join(SOURCES, file))
  const beside = `${program}.${process.pid}`
  execFileSync('gcc', ['-O2', '-Wall', '-Wextra', '-Werror', '-std=gnu11', '-o', beside, ...sources, ...fuse, '-lm'])
  renameSync(beside, program)
  return program
}

/** One transmission in the model's log; times are the model's ms. */
export interface Sent {
  at_ms: number
  airtime_ms: number
  frequency_hz: number
  power_dbm: number
  bytes: string
}

export interface ModelOptions {
  /** DIO0, DIO1 and RESET on lines of a separate gpio-sim chip; default true */
  lines?: boolean
  /** speed of its time relative to the real one */
  speed?: number
}

export class Sx127x {
  readonly device: string
  readonly gpio: GpioSim | undefined
  readonly #child: ReturnType<typeof spawn>
  readonly #control: string
  readonly #log: string

  /** `name`: 'spidev0.0'. Ready when start() has resolved. */
  private constructor(name: string, { lines = true, speed = 1 }: ModelOptions) {
    this.device = `/dev/${name}`
    const air = '/run/air'
    mkdirSync(air, { recursive: true })
    this.#control = `/run/${name}.control`
    this.#log = `/run/${name}.log`
    const words = [name, '-a', air, '-c', this.#control, '-l', this.#log, '-s', String(speed)]
    if (lines) {
      this.gpio = new GpioSim(name.replace('.', '-'), `lora-${name}`, ['dio0', 'dio1', 'reset'])
      const [dio0, dio1] = [0, 1].map(line => this.gpio!.pullFile(line))
      words.push('-0', dio0!, '-1', dio1!, '-r', this.gpio.pullFile(2).replace(/\/pull$/, ''))
    }
    this.#child = spawn(buildModel(), words, { stdio: 'inherit' })
  }

  static async start(name: string, options: ModelOptions = {}): Promise<Sx127x> {
    const model = new Sx127x(name, options)
    await until(`${name} is present`, () => existsSync(model.device) && existsSync(model.#control))
    return model
  }

  /** The wiring options of a driver. */
  get wiring(): Record<string, unknown> {
    const pin = (line: number): object => ({ chip: this.gpio!.path, line })
    return { spi: this.device, ...(this.gpio && { dio0_pin: pin(0), reset_pin: pin(2) }) }
  }

  /** One command (see control.c); resolves its answer, throws its error. */
  command(text: string): Promise<string> {
    return new Promise((resolve, reject) => {
      let answer = ''
      const socket = connect(this.#control, () => socket.write(`${text}\n`))
      socket.on('data', chunk => {
        answer += chunk.toString()
      })
      socket.on('error', reject)
      socket.on('close', () => (answer.startsWith('no such') ? reject(new Error(answer)) : resolve(answer.trim())))
    })
  }

  async counts(): Promise<Record<string, number>> {
    return JSON.parse(await this.command('counts')) as Record<string, number>
  }

  /** All transmissions. */
  sent(): Sent[] {
    if (!existsSync(this.#log)) return []
    const lines = readFileSync(this.#log, 'utf8').split('\n').filter(Boolean)
    return lines.map(line => JSON.parse(line) as Sent)
  }

  async stop(): Promise<void> {
    const ended = new Promise(resolve => this.#child.once('exit', resolve))
    this.#child.kill('SIGKILL')
    await ended
    this.gpio?.remove()
  }
}
