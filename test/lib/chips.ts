// Chips for tests inside the rig: programs that play a device (CUSE), and the kernel's own i2c-stub.
// Needs: cc fuse
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { root, until } from './gateway'
import { tool } from './rig'

/**
 * Compiles test/rig/models/<name>.c if it has changed; returns the program's path. Call it on this machine too, before
 * entering the rig: files written inside are lost.
 */
export function model(name: 'spi-registers' | 'i2c-chips' | 'serial-port'): string {
  const source = join(root, 'test/rig/models', `${name}.c`)
  const program = join(root, '.build/models', name)
  if (existsSync(program) && statSync(program).mtimeMs > statSync(source).mtimeMs) return program
  mkdirSync(join(root, '.build/models'), { recursive: true })
  const fuse = execFileSync('pkg-config', ['--cflags', '--libs', 'fuse3'], { encoding: 'utf8' }).trim().split(/\s+/)
  const beside = `${program}.${process.pid}`
  execFileSync('cc', ['-O2', '-Wall', '-Wextra', '-Werror', '-o', beside, source, ...fuse, '-lm'])
  renameSync(beside, program)
  return program
}

/** A program that plays the device /dev/<name>. */
class Device {
  readonly path: string
  readonly #fault: string
  readonly #command: [string, ...string[]]
  #process: ChildProcess | undefined

  constructor(
    readonly name: string,
    program: string,
    words: readonly string[] = [],
  ) {
    this.path = `/dev/${name}`
    this.#fault = `/run/${name}.fault`
    this.#command = [program, name, this.#fault, ...words]
  }

  async start(): Promise<void> {
    const [program, ...words] = this.#command
    this.#process = spawn(program, words, { stdio: 'ignore' })
    await until(this.path, () => existsSync(this.path))
  }

  /** From now on it does not answer. */
  hang(): void {
    writeFileSync(this.#fault, '')
  }

  /** Every call fails immediately with this error. */
  fail(errno: number): void {
    writeFileSync(`${this.#fault}.new`, String(errno))
    renameSync(`${this.#fault}.new`, this.#fault)
  }

  /** It answers again, including pending calls. */
  recover(): void {
    rmSync(this.#fault, { force: true })
  }

  async stop(): Promise<void> {
    this.recover()
    this.#process?.kill('SIGKILL')
    await until(`no ${this.path}`, () => !existsSync(this.path))
  }
}

/** A chip of 128 registers at /dev/<name>; see test/rig/models/spi-registers.c. It can only hang, not fail. */
export class SpiChip extends Device {
  constructor(name: string) {
    super(name, model('spi-registers'))
  }
}

/** A serial port /dev/<name> whose driver can hang; see test/rig/models/serial-port.c. It receives nothing. */
export class SerialDevice extends Device {
  constructor(name: string) {
    super(name, model('serial-port'))
  }
}

/** An I2C adapter /dev/i2c-<number> with chips on it, as 'sht3x=23.5,41'; see test/rig/models/i2c-chips.c. */
export class I2cChips extends Device {
  constructor(number: number, ...chips: string[]) {
    super(`i2c-${number}`, model('i2c-chips'), chips)
  }
}

/** An adapter of the kernel's i2c-stub with chips at these addresses; its path. The rig has one such module, once. */
export async function i2cStub(...addresses: number[]): Promise<string> {
  const file = join(process.env.RIG_MODULES!, 'i2c-stub.ko')
  tool('insmod', file, `chip_addr=${addresses.map(a => `0x${a.toString(16)}`).join(',')}`)
  await until('/dev/i2c-0', () => existsSync('/dev/i2c-0'))
  return '/dev/i2c-0'
}
