// The kernel's simulated GPIO chips (gpio-sim), inside the rig: created and removed through configfs, lines set and read
// through sysfs, like hands and a meter on real pins.
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const CONFIGFS = '/sys/kernel/config/gpio-sim'

export class GpioSim {
  readonly #dir: string

  /** `lines`: names by offset ('' for none), at least one. */
  constructor(
    readonly name: string,
    readonly label: string,
    readonly lines: readonly string[],
  ) {
    this.#dir = join(CONFIGFS, name)
    mkdirSync(join(this.#dir, 'bank0'), { recursive: true })
    writeFileSync(join(this.#dir, 'bank0/num_lines'), String(lines.length))
    writeFileSync(join(this.#dir, 'bank0/label'), label)
    lines.forEach((line, k) => {
      mkdirSync(join(this.#dir, `bank0/line${k}`))
      if (line !== '') writeFileSync(join(this.#dir, `bank0/line${k}/name`), line)
    })
    this.plug()
  }

  plug(): void {
    writeFileSync(join(this.#dir, 'live'), '1')
  }

  pull(): void {
    writeFileSync(join(this.#dir, 'live'), '0')
  }

  /** /dev/gpiochipN; N changes with every plug */
  get path(): string {
    return `/dev/${this.#chip}`
  }

  get #chip(): string {
    return readFileSync(join(this.#dir, 'bank0/chip_name'), 'utf8').trim()
  }

  #line(line: number, file: string): string {
    const device = readFileSync(join(this.#dir, 'dev_name'), 'utf8').trim()
    return join('/sys/devices/platform', device, this.#chip, `sim_gpio${line}`, file)
  }

  /** File to write 'pull-up' or 'pull-down' to, for fast loops. */
  pullFile(line: number): string {
    return this.#line(line, 'pull')
  }

  /** Sets an input from outside: 1 high, 0 low. */
  drive(line: number, level: 0 | 1): void {
    writeFileSync(this.pullFile(line), level === 1 ? 'pull-up' : 'pull-down')
  }

  /** The level at the pin, as a meter shows it. */
  level(line: number): number {
    return Number(readFileSync(this.#line(line, 'value'), 'utf8'))
  }

  remove(): void {
    if (!existsSync(this.#dir)) return
    this.pull()
    this.lines.forEach((_, k) => {
      rmdirSync(join(this.#dir, `bank0/line${k}`))
    })
    rmdirSync(join(this.#dir, 'bank0'))
    rmdirSync(this.#dir)
  }
}
