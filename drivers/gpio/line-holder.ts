// Outputs that keep their level while no gateway runs: hold-lines (drivers/native/helper, os-node-lines.service of the packages) holds the
// lines where the kernel would let go of them. Without its socket nothing is held, and the kernel decides (docs/wiring.md).
//
// Errors: the helper does not answer (TIMEOUT), or cannot hold one more (LINK_DOWN with the system's error).
import { OsError, orElse } from '../../src/lib/errors'
import { type Files, realFiles } from '../../src/lib/files'
import { systemTimers, type Timers } from '../../src/lib/timers'
import { native, systemError } from '../../src/native'
import type { HelperAddon } from '../../src/native/addon'
import { GpioChip, type GpioLines } from '../../src/native/gpio'
import { askHelper } from '../../src/native/helper'

const HELPER = {
  path: '/run/os-node-lines',
  unit: 'os-node-lines.socket',
  late: 'hold-lines did not answer',
  answerMs: 2000,
}
const KEEP = 'k'.charCodeAt(0)

/** label of a chip → the kernel module whose parameter says that a released line keeps its level */
const KEEPS: Readonly<Record<string, string>> = {
  'pinctrl-bcm2835': 'pinctrl_bcm2835',
  'pinctrl-bcm2711': 'pinctrl_bcm2835',
  'pinctrl-rp1': 'pinctrl_rp1',
}

export class LineHolder {
  constructor(
    readonly files: Files = realFiles,
    readonly timers: Timers = systemTimers,
    readonly addon: () => HelperAddon = () => native().addon,
    readonly label: (chip: string) => string = labelOf,
  ) {}

  /** Call before `lines` of `chip` are closed: they stay requested where a helper listens and the kernel would let go of them. */
  async keep(chip: string, lines: GpioLines): Promise<void> {
    if (!this.files.exists(HELPER.path) || this.#keptByKernel(chip)) return
    const answer = await askHelper(HELPER, this.timers, this.addon(), connection => lines.pass(connection, KEEP))
    if (answer !== 0) throw new OsError('LINK_DOWN', `hold-lines: ${systemError(Number(answer), 'keep').message}`)
  }

  /** Whether the helper holds lines. */
  async holds(): Promise<boolean> {
    return this.files.exists(HELPER.path) && (await this.#ask('?')) === 0
  }

  /** The helper lets go of all lines. */
  async free(): Promise<void> {
    if (this.files.exists(HELPER.path)) await this.#ask('f')
  }

  #ask(request: string): Promise<unknown> {
    const addon = this.addon()
    return askHelper(HELPER, this.timers, addon, connection => addon.sendOne(connection, Buffer.from(request), null))
  }

  #keptByKernel(chip: string): boolean {
    const module = KEEPS[this.label(chip)]
    const parameter = `/sys/module/${module}/parameters/persist_gpio_outputs`
    return module !== undefined && orElse('', () => this.files.read(parameter).toString()).startsWith('Y')
  }
}

function labelOf(path: string): string {
  const chip = GpioChip.open(path)
  try {
    return chip.info().label
  } finally {
    chip.close()
  }
}
