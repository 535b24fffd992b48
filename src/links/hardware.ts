// The machine's hardware as the user interfaces show it: GPIO lines, the board's header and buses, and outputs. Types only;
// drivers/board provides the data, commands and web show it.

export type BusKind = 'i2c' | 'spi' | 'uart' | 'can' | 'w1'

/** One GPIO line as the kernel reports it. */
export interface LineReport {
  readonly chip: string
  readonly label: string
  readonly line: number
  /** '' if the kernel has none */
  readonly name: string
  /** GPIO17, for lines of the header */
  readonly pin?: string
  readonly header?: number
  readonly direction: 'input' | 'output'
  readonly active_low: boolean
  readonly bias: string | null
  readonly used: boolean
  readonly consumer: string
  /** for lines that this gateway holds */
  readonly value?: number | null
}

/** One pin of the header. */
export interface PinReport {
  readonly header: number
  readonly name: string
  readonly functions: readonly string[]
  /** by the configuration */
  readonly used_by: readonly string[]
}

export interface BusReport {
  readonly name: string
  readonly kind: BusKind
  /** its device name on this machine */
  readonly device: string
  readonly state: 'ready' | 'no_right' | 'missing'
  readonly used_by: readonly string[]
  /** what to do before it can be used */
  readonly todo?: string
  readonly note?: string
}

export interface BoardReport {
  readonly board: string
  readonly title: string
  /** how the board was determined: by the device tree, by gateway.board, or not at all */
  readonly by: 'device tree' | 'configuration' | 'default'
  readonly model: string
  readonly boot_config: string | null
  readonly pins: readonly PinReport[]
  /** lines in the configuration that are on no known header, as configured */
  readonly off_header: readonly { readonly name: string; readonly used_by: readonly string[] }[]
  readonly buses: readonly BusReport[]
  /** LED → its folder in /sys/class/leds, null: missing */
  readonly leds: Readonly<Record<string, string | null>>
  /** pins that two parts of the configuration use */
  readonly clashes: readonly string[]
}

export interface Hardware {
  /** Throws NOT_FOUND, FORBIDDEN, E_NO_ADDON if there is no readable chip. */
  lines(): readonly LineReport[]
  board(): BoardReport
}

/** An output of a source. */
export interface OutputItem {
  readonly source: string
  readonly name: string
  /** a logical value: 1 is active; null: its source is not open */
  readonly value: 0 | 1 | null
  /** why there is no value */
  readonly reason?: string
}

export interface OutputsControl {
  list(): readonly OutputItem[]
  /** `name` may be source.name if two sources have an output of that name. Throws NOT_FOUND, BAD_REQUEST, LINK_DOWN. */
  set(name: string, value: 0 | 1): Promise<OutputItem>
}
