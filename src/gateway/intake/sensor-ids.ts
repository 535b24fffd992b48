// Sensor ids are unique in a gateway: two sources with one id would draw one zig-zag line, and the alarm of one would hide
// that of the other. The source that is first in the configuration keeps the id; a later one is logged with its source name
// as a prefix. Ids that do not clash never change. Only this module decides the logged name.

/** A sensor id that another source already has. */
export interface Clash {
  readonly source: string
  readonly id: string
  /** the source that keeps the id */
  readonly owner: string
  /** the logged id of this one, and the id suggested for the configuration */
  readonly proposed: string
}

/** ids on the wire are at most this long */
const MAX_ID = 64

export class SensorIds {
  /** id as it is logged → the source that has it */
  readonly #owners = new Map<string, string>()
  /** by source: the driver's id → the id as it is logged, where that is another */
  readonly #renamed = new Map<string, Map<string, string>>()
  #configured = new Set<string>()

  /** The original ids of new sources: a renamed sensor must not get one of them. */
  configured(ids: readonly string[]): void {
    this.#configured = new Set(ids)
  }

  /** Claims ids for a source; returns those already taken. An earlier claim stays unchanged. */
  claim(source: string, ids: readonly string[]): Clash[] {
    const clashes: Clash[] = []
    for (const id of ids) {
      const owner = this.#owners.get(id)
      if (owner === source || this.#renamed.get(source)?.has(id)) continue
      if (owner === undefined) {
        this.#owners.set(id, source)
        continue
      }
      const proposed = this.#free(source, id)
      this.#owners.set(proposed, source)
      const renamed = this.#renamed.get(source) ?? new Map<string, string>()
      this.#renamed.set(source, renamed.set(id, proposed))
      clashes.push({ source, id, owner, proposed })
    }
    return clashes
  }

  /** Releases the ids of a closed source, and returns them as they were logged. */
  release(source: string): string[] {
    const ids = [...this.#owners].filter(([, owner]) => owner === source).map(([id]) => id)
    for (const id of ids) this.#owners.delete(id)
    this.#renamed.delete(source)
    return ids
  }

  /** The id under which a sensor of a source is logged. */
  nameOf(source: string, id: string): string {
    return this.#renamed.get(source)?.get(id) ?? id
  }

  /** True if at least one id of the source is logged under another name. */
  renames(source: string): boolean {
    return this.#renamed.has(source)
  }

  #free(source: string, id: string): string {
    for (let k = 1; ; k++) {
      const end = k === 1 ? `_${id}` : `_${id}_${k}`
      const name = (source.replace(/[^A-Za-z0-9_-]+/g, '_') + end).slice(-MAX_ID)
      if (!this.#owners.has(name) && !this.#configured.has(name)) return name
    }
  }
}
