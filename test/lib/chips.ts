// Chips for tests inside the rig: programs that are a device (CUSE), and the kernel's own i2c-stub.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { root, until } from './gateway'
import { tool } from './rig'

/** Compiles test/rig/models/<name>.c where that was not done since it changed; returns the program's path. */
export function model(name: string): string {
  const source = join(root, 'test/rig/models', `${name}.c`)
  const program = join(root, '.build/models', name)
  if (existsSync(program) && statSync(program).mtimeMs > statSync(source).mtimeMs) return program
  mkdirSync(join(root, '.build/models'), { recursive: true })
  const fuse = execFileSync('pkg-config', ['--cflags', '--libs', 'fuse3'], { encoding: 'utf8' }).trim().split(/\s+/)
  execFileSync('cc', ['-O2', '-Wall', '-Wextra', '-Werror', '-o', program, source, ...fuse])
  return program
}

/** A chip of 128 registers at /dev/<name>; see test/rig/models/spi-registers.c. */
export class SpiChip {
  readonly path: string
  readonly #hold: string
  #process: ChildProcess | undefined

  constructor(readonly name: string) {
    this.path = `/dev/${name}`
    this.#hold = `/run/${name}.hold`
  }

  async start(): Promise<void> {
    this.#process = spawn(model('spi-registers'), [this.name, this.#hold], { stdio: 'ignore' })
    await until(this.path, () => existsSync(this.path))
  }

  /** From now on it answers nothing. */
  hang(): void {
    writeFileSync(this.#hold, '')
  }

  /** It answers again, also what has waited. */
  recover(): void {
    rmSync(this.#hold, { force: true })
  }

  async stop(): Promise<void> {
    this.recover()
    this.#process?.kill('SIGKILL')
    await until(`no ${this.path}`, () => !existsSync(this.path))
  }
}

/** An adapter of the kernel's i2c-stub with chips at these addresses; its path. The rig has one such module, once. */
export async function i2cStub(...addresses: number[]): Promise<string> {
  const file = join(process.env.RIG_MODULES!, 'i2c-stub.ko')
  tool('insmod', file, `chip_addr=${addresses.map(a => `0x${a.toString(16)}`).join(',')}`)
  await until('/dev/i2c-0', () => existsSync('/dev/i2c-0'))
  return '/dev/i2c-0'
}
