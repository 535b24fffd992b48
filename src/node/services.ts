// The service manager as the library sees it (specification, "Service manager"). main passes in the real one, with
// plugins; a library node has none mounted.

export interface ServiceSnapshot {
  mode: string
  mount_index: string[]
  runtime_index: string[]
  config_index: Record<string, unknown>
}

export interface ServiceManager {
  mount(name: string, service: unknown, config?: Record<string, unknown> | null, mode?: string | null): unknown
  get(name: string, fallback?: unknown): unknown
  snapshot(): ServiceSnapshot
}

/** Holds mounted services without starting them. */
export class EmptyServiceManager implements ServiceManager {
  readonly #services = new Map<string, unknown>()
  readonly #mode: string

  constructor(mode = 'runtime') {
    this.#mode = mode
  }

  mount(name: string, service: unknown): unknown {
    this.#services.set(name, service)
    return service
  }

  get(name: string, fallback: unknown = null): unknown {
    return this.#services.get(name) ?? fallback
  }

  snapshot(): ServiceSnapshot {
    return { mode: this.#mode, mount_index: [...this.#services.keys()], runtime_index: [], config_index: {} }
  }
}
