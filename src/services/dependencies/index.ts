// The plugin dependency_manager checks whether the parts of os-node are as built (check) and whether they load (doctor), and
// restores them (sync, repair, install). Errors are reported per part; a file is only installed if the manifest names it with
// its SHA-256.
import { asOsError, errno, OsError } from '../../lib/errors'
import { nearest } from '../../lib/nearest'
import type { CliHandler, PluginDefinition, PluginHost, Service } from '../contract'
import { diagnose } from './doctor'
import {
  checkPart,
  distFolder,
  isWell,
  type Manifest,
  type Part,
  PLATFORM,
  partsHere,
  readManifest,
} from './manifest-parts'
import { dropOtherCopies, keepCopy, type RestoredFile, type RestoreParts, restore } from './restore'

export interface DependencyParts {
  readonly dist?: string
  readonly platform?: string
  readonly npm?: string
}

export class DependencyManager implements Service {
  readonly #host: PluginHost
  readonly #dist: string
  readonly #platform: string
  readonly #npm: string
  #busy: string | null = null

  constructor(host: PluginHost, { dist = distFolder(), platform = PLATFORM, npm = 'npm' }: DependencyParts = {}) {
    this.#host = host
    this.#dist = dist
    this.#platform = platform
    this.#npm = npm
  }

  status(): Record<string, unknown> {
    const { ok, missing_total, damaged } = this.check()
    return { ok, missing_total, damaged, busy: this.#busy }
  }

  /** Compares every part of this machine with the manifest. Throws NOT_FOUND without a manifest. */
  check() {
    const manifest = this.#manifest
    const details = partsHere(manifest, this.#platform).map(part => checkPart(part, this.#dist))
    const named = (...states: string[]): string[] =>
      details.filter(({ state }) => states.includes(state)).map(({ name }) => name)
    const missing = named('missing')
    return {
      ok: details.every(isWell),
      version: manifest.version,
      platform: this.#platform,
      declared_total: details.length,
      missing_total: missing.length,
      missing,
      damaged: named('damaged', 'unreadable'),
      details,
    }
  }

  /** Loads every part in a separate process. Throws NOT_FOUND. */
  async doctor(signal?: AbortSignal): Promise<{ ok: boolean; details: Awaited<ReturnType<typeof diagnose>>[] }> {
    const details = []
    for (const part of partsHere(this.#manifest, this.#platform)) {
      const checked = checkPart(part, this.#dist)
      if (checked.state !== 'inside') details.push(await diagnose(checked, signal))
    }
    return { ok: details.every(({ ok }) => ok), details }
  }

  /** Restores missing parts, and keeps a copy of intact ones for a later repair. Throws NOT_FOUND, LOCKED. */
  sync(
    signal?: AbortSignal,
  ): Promise<{ ok: boolean; restored: RestoredFile[]; copies: number; copies_error?: string }> {
    return this.#alone('sync', async () => {
      const restored = await this.#restoreAll(['missing'], signal)
      return { ok: restored.every(({ ok }) => ok), restored, ...this.#keepCopies() }
    })
  }

  /** Restores damaged or missing parts. Throws NOT_FOUND, LOCKED. */
  repair(signal?: AbortSignal): Promise<{ ok: boolean; restored: RestoredFile[] }> {
    return this.#alone('repair', async () => {
      const restored = await this.#restoreAll(['missing', 'damaged', 'unreadable'], signal)
      return { ok: restored.every(({ ok }) => ok), restored }
    })
  }

  /** Installs exactly one part. `file`: the only source to use. Throws NOT_FOUND, LOCKED. */
  install(
    name: string,
    { file, force = false, signal }: { file?: string; force?: boolean; signal?: AbortSignal } = {},
  ): Promise<RestoredFile & { already?: boolean }> {
    const part = this.#find(name)
    return this.#alone('install', async () => {
      const now = checkPart(part, this.#dist)
      if (now.state === 'ok' && !force && file === undefined) return { name: part.name, ok: true, already: true }
      return restore(now, this.#restoring(signal), file)
    })
  }

  getCliCommands(): Record<string, CliHandler> {
    const outcome = (value: { ok: boolean }, text: string) => ({
      value: { ...value },
      text,
      exitCode: value.ok ? 0 : 1,
    })
    return {
      check: {
        summary: 'compare installed files with the build manifest',
        reads: true,
        run: () => {
          const value = this.check()
          const lines = value.details.map(
            ({ state, name, version, path }) => `${state.padEnd(10)} ${name} ${version}  ${path}`,
          )
          return outcome(value, lines.join('\n'))
        },
      },
      doctor: {
        summary: 'load each file and report errors',
        reads: true,
        run: async (_, { signal }) => {
          const value = await this.doctor(signal)
          const lines = value.details.map(({ ok, name, errno: code, error, hint }) =>
            ok
              ? hint
                ? `not here   ${name}: ${hint}`
                : `loads      ${name}`
              : `${String(code).padEnd(10)} ${name}: ${error}\n           ${hint}`,
          )
          return outcome(value, lines.join('\n'))
        },
      },
      sync: {
        summary: 'restore missing files and keep copies for repair',
        run: async (_, { signal }) => {
          const value = await this.sync(signal)
          return outcome(value, [...value.restored.map(reported), `copies kept: ${value.copies}`].join('\n'))
        },
      },
      repair: {
        summary: 'restore damaged or missing files',
        run: async (_, { signal }) => {
          const value = await this.repair(signal)
          return outcome(value, value.restored.map(reported).join('\n') || 'nothing is damaged')
        },
      },
      install: {
        summary: 'install one part',
        example: 'quic-linux-x64 --from ./quic.node',
        options: {
          name: { type: 'string', value: 'NAME', required: true, help: 'part, as check shows it' },
          from: { type: 'string', value: 'PATH', help: 'install from this file' },
          force: { type: 'boolean', help: 'even if it is unchanged' },
        },
        operands: ['name'],
        run: async ({ name, from, force }, { signal }) => {
          const value = await this.install(String(name), {
            force: force === true,
            signal,
            ...(typeof from === 'string' && { file: from }),
          })
          return outcome(value, value.already ? `${value.name} is unchanged` : reported(value))
        },
      },
    }
  }

  get #manifest(): Manifest {
    const manifest = readManifest(this.#dist)
    if (!manifest)
      throw new OsError(
        'NOT_FOUND',
        `${this.#dist}/os-node.js has no manifest: it is damaged, or was not made by build.mjs`,
        {
          hint: 'install os-node again',
        },
      )
    return manifest
  }

  /** Finds a part by its name, its name without the platform, or its package name. */
  #find(name: string): Part {
    const parts = partsHere(this.#manifest, this.#platform)
    const found =
      parts.find(part => part.name === name) ??
      parts.find(part => part.name === `${name}-${this.#platform}` || part.package?.name === name)
    if (found) return found
    const meant = nearest(
      name,
      parts.map(part => part.name),
    )
    throw new OsError('NOT_FOUND', `no part ${JSON.stringify(name)}${meant ? `; did you mean ${meant}?` : ''}`, {
      hint: 'os-node deps check lists them',
    })
  }

  async #restoreAll(states: readonly string[], signal?: AbortSignal): Promise<RestoredFile[]> {
    const restored: RestoredFile[] = []
    for (const part of this.check().details)
      if (states.includes(part.state)) restored.push(await restore(part, this.#restoring(signal)))
    return restored
  }

  #keepCopies(): { copies: number; copies_error?: string } {
    let copies = 0
    try {
      const { details } = this.check()
      for (const part of details) if (part.state === 'ok' && keepCopy(part, this.#host.dataDir)) copies++
      dropOtherCopies(details, this.#host.dataDir)
      return { copies }
    } catch (error) {
      return { copies, copies_error: errno(error) ?? asOsError(error).message }
    }
  }

  #restoring(signal?: AbortSignal): RestoreParts {
    const { registry, timeout_s } = this.#host.settings()
    return {
      dataDir: this.#host.dataDir,
      npm: this.#npm,
      registry: String(registry ?? ''),
      timeoutMs: Number(timeout_s) * 1000,
      ...(signal && { signal }),
    }
  }

  async #alone<T>(what: string, work: () => Promise<T>): Promise<T> {
    if (this.#busy) throw new OsError('LOCKED', `${this.#busy} is running`, { hint: 'try again when it has ended' })
    this.#busy = what
    try {
      return await work()
    } finally {
      this.#busy = null
    }
  }
}

const reported = ({ name, ok, from, error, copy }: RestoredFile): string => {
  if (ok) return `${name}: restored (${from})`
  const byHand = copy ? `\n  copy ${copy.from}\n  to   ${copy.to}` : ''
  return `${name}: ${error}${byHand}`
}

export const dependencyPlugin: PluginDefinition = {
  name: 'dependency_manager',
  create: host => new DependencyManager(host),
}
