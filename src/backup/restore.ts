// Restores the state of a data directory from a backup. First the complete file is read and verified, and its Config.json is
// checked as at a start, then everything is written into <data>/restore/new and synced; until then nothing is changed. The
// plan (<data>/restore/plan.json) is the point of no return: once it is on the disk, an interrupted restore is completed by
// the next command or start. Phase `out` moves the old state to <data>/restore/old-N, phase `in` moves the new one into its
// place; each step may be repeated. The old state is removed after the new one has started once. Config.json is never
// missing: it is copied, then replaced atomically.
//
// Errors: E_BACKUP, E_PASSPHRASE, DATA_DIR for a data directory of several mounts, and those of the system while the new
// state is written: nothing is changed then. Later errors leave the plan, and the next command continues.
import { dirname, join } from 'node:path'
import { atomicWrite } from '../lib/atomic'
import { asOsError, errno, OsError } from '../lib/errors'
import { deviceOf, type Files, mountPoints, realFiles, realPath, removeTree } from '../lib/files'
import { diskFault } from '../lib/writable'
import { yieldToLoop } from '../lib/yield'
import { filesIn, staysHere } from './contents'
import { allOf, type BackupHeader, type BackupVisitor, readBackup, refuseOutside, type Steps, wrong } from './format'
import { type Plan, planPath, RESTORED_FILE, readPlan, side } from './restore-progress'
import { type Secrets, unseal } from './seal'

export interface RestoreOptions {
  readonly file: string
  readonly dataDir: string
  /** target path of Config.json */
  readonly configPath: string
  /** absent: secrets in the backup are not restored */
  readonly passphrase?: string | undefined
  /** throws CONFIG_SYNTAX or CONFIG_INVALID for a text of Config.json with which the gateway would not start */
  readonly checkConfig?: (text: string) => void
  /** UNIX ms */
  readonly now: number
  readonly files?: Files
}

export interface RestoreResult extends BackupHeader {
  readonly files: number
  readonly secrets_restored: boolean
  /** the old state, kept until the new one has started once; null: there was none */
  readonly old_state: string | null
}

/** Verifies `file`, then restores it. The caller has the lock of the data directory. */
export function restoreBackup(options: RestoreOptions): RestoreResult {
  const result = allOf(preparing(options))
  finishRestore(options.dataDir, options.files)
  return result
}

/**
 * Like restoreBackup(), without the replacement of the state: the next command or start does that. So it may run in the
 * gateway whose state is replaced.
 */
export async function prepareRestore(options: RestoreOptions): Promise<RestoreResult> {
  for (const steps = preparing(options); ; await yieldToLoop()) {
    const { done, value } = steps.next()
    if (done) return value
  }
}

function* preparing(options: RestoreOptions): Steps<RestoreResult> {
  const { file, dataDir, configPath, now, files = realFiles } = options
  const checked = yield* checking(file, options.passphrase, files)
  refuseConfig(options, checked)
  const { header, secrets } = checked
  finishRestore(dataDir, files)
  const fresh = side(dataDir, 'new')
  let count: number
  try {
    clear(fresh, files)
    count = yield* stage(file, fresh, secrets, { restored_at: now, created: header.created }, files)
    refuseMounts(dataDir, configPath, filesIn(join(fresh, 'data'), files), files)
  } catch (error) {
    clear(fresh, files)
    throw notWritten(dataDir, error)
  }
  const taken = files.exists(side(dataDir)) ? files.list(side(dataDir)) : []
  let n = 1
  while (taken.includes(`old-${n}`)) n++
  const had = files.exists(configPath) || oldFiles(dataDir, configPath, files).length > 0
  writePlan(dataDir, { phase: 'out', old: `old-${n}`, config: configPath }, files)
  return {
    ...header,
    files: count,
    secrets_restored: secrets !== undefined,
    old_state: had ? side(dataDir, `old-${n}`) : null,
  }
}

/** Reads and verifies a complete backup. Throws E_BACKUP, E_PASSPHRASE. */
export const checkBackup = (file: string, passphrase: string | undefined, files: Files = realFiles): Checked =>
  allOf(checking(file, passphrase, files))

interface Checked {
  header: BackupHeader
  /** text of Config.json, complete if the secrets were opened */
  config: string
  secrets?: Secrets
}

function* checking(file: string, passphrase: string | undefined, files: Files): Steps<Checked> {
  let header: { value: BackupHeader; bytes: Buffer } | undefined
  let sealed: Buffer | undefined
  let isConfig = false
  const config: Buffer[] = []
  yield* readBackup(file, files, {
    header: (value, bytes) => {
      header = { value, bytes }
    },
    file: path => {
      isConfig = path === 'Config.json'
    },
    piece: bytes => isConfig && config.push(bytes),
    sealed: bytes => {
      sealed = bytes
    },
  })
  const { value, bytes } = header!
  const bare = Buffer.concat(config).toString('utf8')
  if (!sealed || passphrase === undefined) return { header: value, config: bare }
  const secrets = unseal(sealed, passphrase, bytes)
  for (const path of Object.keys(secrets)) refuseOutside(file, path)
  const whole = secrets['Config.json']
  return { header: value, secrets, config: whole === undefined ? bare : Buffer.from(whole, 'base64').toString('utf8') }
}

/** Throws E_BACKUP if a gateway would not start with the Config.json in the backup. */
function refuseConfig({ file, checkConfig }: RestoreOptions, { header, config, secrets }: Checked): void {
  try {
    checkConfig?.(config)
  } catch (cause) {
    const { message, details } = cause as OsError
    // a secret that was left out is set after the restore
    if (!secrets && header.left_out.includes(String(details?.key))) return
    throw wrong(
      file,
      `a start would refuse the configuration in it: ${message}`,
      `restore it with os-node ${header.version}, which wrote it, or take another backup`,
    )
  }
}

/**
 * A file cannot be moved between two mounts, or replaced if it is a mount itself. Throws DATA_DIR for a data directory where a
 * restore would have to; `fresh`: the files of the new state.
 */
function refuseMounts(dataDir: string, configPath: string, fresh: readonly string[], files: Files): void {
  const mounts = mountPoints()
  const placeOf = (path: string): string => {
    const at = realPath(path)
    const around = mounts.filter(mount => at === mount || at.startsWith(mount === '/' ? mount : `${mount}/`))
    return `${deviceOf(at)} ${Math.max(...around.map(({ length }) => length))}`
  }
  const old = oldFiles(dataDir, configPath, files)
  const folders = new Set([...old, ...fresh].map(path => dirname(join(dataDir, path))))
  const here = placeOf(dataDir)
  const other =
    [configPath, ...old.map(path => join(dataDir, path))].find(path => mounts.includes(realPath(path))) ??
    [...folders].find(folder => files.exists(folder) && placeOf(folder) !== here)
  if (other !== undefined)
    throw new OsError('DATA_DIR', `${other} is another mount or file system than ${dataDir}; nothing was changed`, {
      hint: 'a restore moves files within one file system: unmount it, or remove the link, and mount it after the restore with the files of it',
    })
}

/** Completes an interrupted restore; does nothing if there is none, or its plan is damaged. The caller has the lock. */
export function finishRestore(dataDir: string, files: Files = realFiles): void {
  const read = readPlan(dataDir, files)
  let plan = read === 'damaged' ? undefined : read
  try {
    if (plan?.phase === 'out') {
      moveOut(dataDir, plan, files)
      plan = { ...plan, phase: 'in' }
      writePlan(dataDir, plan, files)
    }
    if (plan?.phase === 'in') {
      moveIn(dataDir, plan, files)
      writePlan(dataDir, { ...plan, phase: 'done' }, files)
      clear(side(dataDir, 'new'), files)
    }
  } catch (cause) {
    const why = diskFault(cause) ?? asOsError(cause).message
    throw new OsError('STORAGE', `the restore was interrupted (${why}); the next command on ${dataDir} completes it`, {
      cause,
    })
  }
}

/** Writes the new state into a separate folder; all of it is on flash then. Returns the number of files. */
function* stage(
  file: string,
  fresh: string,
  secrets: Secrets | undefined,
  restored: object,
  files: Files,
): Steps<number> {
  const folders = new Set<string>()
  let count = 0
  const open = (path: string): number => {
    const whole = join(fresh, path)
    files.mkdir(dirname(whole))
    for (let at = dirname(whole); at.length >= dirname(fresh).length; at = dirname(at)) folders.add(at)
    count++
    return files.open(whole, 'w')
  }
  const write = (path: string, bytes: Buffer): void => {
    const fd = open(path)
    try {
      files.write(fd, bytes)
      files.syncNow(fd)
    } finally {
      files.close(fd)
    }
  }
  let fd: number | undefined
  let hasUpstream = false
  const visitor: BackupVisitor = {
    file: path => {
      hasUpstream ||= path.startsWith('data/upstream/log/')
      fd = open(path)
    },
    piece: bytes => files.write(fd!, bytes),
    fileEnd: () => {
      files.syncNow(fd!)
      files.close(fd!)
      fd = undefined
    },
  }
  try {
    yield* readBackup(file, files, visitor)
  } finally {
    if (fd !== undefined) files.close(fd)
  }
  for (const [path, text] of Object.entries(secrets ?? {})) write(path, Buffer.from(text, 'base64'))
  const mark = Buffer.from(JSON.stringify(restored))
  for (const dir of hasUpstream ? ['data/', 'data/upstream/'] : ['data/']) write(dir + RESTORED_FILE, mark)
  for (const folder of [...folders, dirname(fresh), dirname(dirname(fresh))]) files.syncDir(folder)
  return count
}

const oldFiles = (dataDir: string, configPath: string, files: Files): string[] =>
  files.exists(dataDir) ? filesIn(dataDir, files, path => !staysHere(path) && join(dataDir, path) !== configPath) : []

function moveOut(dataDir: string, { old, config }: Plan, files: Files): void {
  const to = side(dataDir, old)
  files.mkdir(to)
  if (files.exists(config)) atomicWrite(join(to, 'Config.json'), files.read(config), files)
  move(dataDir, join(to, 'data'), oldFiles(dataDir, config, files), files)
}

function moveIn(dataDir: string, { config }: Plan, files: Files): void {
  const from = side(dataDir, 'new')
  const text = join(from, 'Config.json')
  if (files.exists(text)) {
    files.mkdir(dirname(config))
    atomicWrite(config, files.read(text), files)
  }
  const data = join(from, 'data')
  if (files.exists(data)) move(data, dataDir, filesIn(data, files), files)
}

/** Moves files; the new names are on flash before the old ones are removed. */
function move(from: string, to: string, paths: readonly string[], files: Files): void {
  const folders = (root: string): Set<string> => {
    const all = new Set<string>([root])
    for (const path of paths)
      for (let at = dirname(join(root, path)); at.length > root.length; at = dirname(at)) all.add(at)
    return all
  }
  for (const folder of folders(to)) files.mkdir(folder)
  for (const path of paths) files.rename(join(from, path), join(to, path))
  for (const folder of [...folders(to), dirname(to)]) files.syncDir(folder)
  for (const folder of folders(from)) files.syncDir(folder)
}

const writePlan = (dataDir: string, plan: Plan, files: Files): void =>
  atomicWrite(planPath(dataDir), JSON.stringify(plan), files)

/** Removes the files of a folder, and the folder if it exists. */
function clear(dir: string, files: Files): void {
  if (!files.exists(dir)) return
  for (const path of filesIn(dir, files)) files.remove(join(dir, path))
  if (files === realFiles) removeTree(dir)
}

function notWritten(dataDir: string, error: unknown): OsError {
  if (error instanceof OsError) return error
  const why = diskFault(error) ?? asOsError(error).message
  const code = errno(error) === 'ENOSPC' || errno(error) === 'EDQUOT' ? 'DISK_FULL' : 'STORAGE'
  return new OsError(code, `the backup could not be written to ${dataDir} (${why}); nothing was changed`, {
    cause: error,
  })
}
