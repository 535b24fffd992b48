// The core manager of the specification: the existing cores, the one that makes nodes, and the exports of each. The
// node class and the other exports are passed in, since they are on higher floors.
//
// Errors: an unknown core or name is NOT_FOUND; an unreadable configuration is CONFIG_INVALID or CONFIG_SYNTAX. A core
// that this machine cannot run is discovered but not available; if it is made active, pycore, whose packets are the
// same, is used instead, with a warning.
import { OsError } from '../lib/errors'
import { readConfig, record } from '../pipeline/settings'

/** The exports of a core by name: the library's classes on that core. */
export interface CorePackage {
  readonly name: string
  readonly [symbol: string]: unknown
}

export interface CoreParts<Node> {
  /** core → its exports, made on first use */
  readonly cores: Readonly<Record<string, () => CorePackage>>
  /** why a core cannot run here; null if it can */
  readonly problem: (name: string) => string | null
  /** a node on that core; without a name its configuration decides */
  readonly node: (configPath: string | null, name: string | null) => Node
}

export class BareCoreManager<Node = object> {
  readonly #parts: CoreParts<Node>
  readonly #basePackage: string
  readonly #default: string
  readonly #loaded = new Map<string, CorePackage>()
  #active: string | null = null
  #configured: string | null = null
  #configPath: string | null = null

  /** `basePackage`: prefix of the names from discoverCores. Throws NOT_FOUND. */
  constructor(basePackage: string, defaultCore: string, parts: CoreParts<Node>) {
    this.#parts = parts
    this.#basePackage = basePackage
    this.#default = this.#known(defaultCore)
  }

  /** Cores of this build: name → package of its parts. */
  discoverCores(): Record<string, string> {
    return Object.fromEntries(Object.keys(this.#parts.cores).map(name => [name, `${this.#basePackage}.${name}`]))
  }

  /** Names of the cores that run on this machine. */
  availableCores(): string[] {
    return Object.keys(this.#parts.cores).filter(name => this.#parts.problem(name) === null)
  }

  /** Uses engine_settings.core_backend of a configuration, until setActiveCore sets another. Throws NOT_FOUND. */
  setConfig(config: object): void {
    const name = record(record(config).engine_settings).core_backend
    this.#configured = name === undefined ? null : this.#known(String(name))
  }

  /** The same with a file, which createNode reads too. A missing file has no effect. */
  setConfigPath(configPath: string): void {
    this.setConfig(readConfig(configPath) ?? {})
    this.#configPath = configPath
  }

  /** Throws NOT_FOUND. */
  setActiveCore(name: string): string {
    return (this.#active = this.#known(name))
  }

  /** The core of setActiveCore, else the configured one, else the default. */
  getActiveCoreName(): string {
    return this.#active ?? this.#configured ?? this.#default
  }

  /** The exports of a core, by default of the active one. Throws NOT_FOUND. */
  loadCore(name: string | null = null): CorePackage {
    const wanted = this.#known(name ?? this.getActiveCoreName())
    let loaded = this.#loaded.get(wanted)
    if (!loaded) {
      loaded = this.#parts.cores[wanted]!()
      this.#loaded.set(wanted, loaded)
    }
    return loaded
  }

  /** Names of a core's exports. */
  listSymbols(name: string | null = null): string[] {
    return Object.keys(this.loadCore(name)).sort()
  }

  /** One export of a core. Throws NOT_FOUND. */
  getSymbol(symbolName: string, name: string | null = null): unknown {
    const core = this.loadCore(name)
    if (Object.hasOwn(core, symbolName)) return core[symbolName]
    throw new OsError('NOT_FOUND', `the core ${core.name} gives no ${JSON.stringify(symbolName)}`, {
      hint: `it gives ${this.listSymbols(core.name).join(', ')}`,
    })
  }

  /** A node. Its core: `name`, else that of setActiveCore or setConfig, else that of its configuration. */
  createNode(configPath: string | null = null, name: string | null = null): Node {
    const core = name === null ? (this.#active ?? this.#configured) : this.#known(name)
    return this.#parts.node(configPath ?? this.#configPath, core)
  }

  #known(name: string): string {
    const names = Object.keys(this.#parts.cores)
    if (names.includes(name)) return name
    throw new OsError('NOT_FOUND', `no core ${JSON.stringify(name)} in this build`, {
      hint: `cores of this build: ${names.join(', ')}`,
    })
  }
}
