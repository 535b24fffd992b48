// The core manager of the specification: which cores there are, which one makes nodes, and what each gives. The node class and the
// other names come from outside, since they are on higher floors.
//
// What fails: a core or name that does not exist is NOT_FOUND; a configuration that cannot be read is CONFIG_INVALID or
// CONFIG_SYNTAX. A core that this machine cannot run is discovered and not available; it can be made active, and pycore, whose packets are
// the same, is used in its place, with a warning.
import { OsError } from '../lib/errors'
import { readConfig, record } from '../pipeline/settings'

/** What a core gives, by name: the classes of the library on that core. */
export interface CorePackage {
  readonly name: string
  readonly [symbol: string]: unknown
}

export interface CoreParts<Node> {
  /** core → what it gives, made on first use */
  readonly cores: Readonly<Record<string, () => CorePackage>>
  /** why a core cannot run here; null when it can */
  readonly problem: (name: string) => string | null
  /** a node on that core; without a name its configuration says which */
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

  /** `basePackage`: what the names of discoverCores begin with. Throws NOT_FOUND. */
  constructor(basePackage: string, defaultCore: string, parts: CoreParts<Node>) {
    this.#parts = parts
    this.#basePackage = basePackage
    this.#default = this.#known(defaultCore)
  }

  /** Cores of this build: name → where its parts come from. */
  discoverCores(): Record<string, string> {
    return Object.fromEntries(Object.keys(this.#parts.cores).map(name => [name, `${this.#basePackage}.${name}`]))
  }

  /** Names of the cores that run on this machine. */
  availableCores(): string[] {
    return Object.keys(this.#parts.cores).filter(name => this.#parts.problem(name) === null)
  }

  /** Takes engine_settings.core_backend of a configuration, until setActiveCore names another one. Throws NOT_FOUND. */
  setConfig(config: object): void {
    const name = record(record(config).engine_settings).core_backend
    this.#configured = name === undefined ? null : this.#known(String(name))
  }

  /** The same of a file, which createNode reads too. A file that does not exist says nothing. */
  setConfigPath(configPath: string): void {
    this.setConfig(readConfig(configPath) ?? {})
    this.#configPath = configPath
  }

  /** Throws NOT_FOUND. */
  setActiveCore(name: string): string {
    return (this.#active = this.#known(name))
  }

  /** The one of setActiveCore, else the configured one, else the default. */
  getActiveCoreName(): string {
    return this.#active ?? this.#configured ?? this.#default
  }

  /** What a core gives, by default the active one. Throws NOT_FOUND. */
  loadCore(name: string | null = null): CorePackage {
    const wanted = this.#known(name ?? this.getActiveCoreName())
    let loaded = this.#loaded.get(wanted)
    if (!loaded) {
      loaded = this.#parts.cores[wanted]!()
      this.#loaded.set(wanted, loaded)
    }
    return loaded
  }

  /** Names of what a core gives. */
  listSymbols(name: string | null = null): string[] {
    return Object.keys(this.loadCore(name)).sort()
  }

  /** One thing that a core gives. Throws NOT_FOUND. */
  getSymbol(symbolName: string, name: string | null = null): unknown {
    const core = this.loadCore(name)
    if (Object.hasOwn(core, symbolName)) return core[symbolName]
    throw new OsError('NOT_FOUND', `the core ${core.name} gives no ${JSON.stringify(symbolName)}`, {
      hint: `it gives ${this.listSymbols(core.name).join(', ')}`,
    })
  }

  /** A node. Its core: the named one, else that of setActiveCore or setConfig, else the one of its configuration. */
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
