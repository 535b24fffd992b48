// The service manager as the library sees it (specification, "Service manager"). main and index.ts pass in the real one, with
// plugins.

export interface ServiceSnapshot {
  mode: string
  mount_index: string[]
  runtime_index: string[]
  config_index: Record<string, unknown>
}

export interface ServiceManagerLike {
  mount(name: string, service: unknown, config?: Record<string, unknown> | null, mode?: string | null): unknown
  get(name: string, fallback?: unknown): unknown
  snapshot(): ServiceSnapshot
}
