// Backup and restore of a gateway's state: its configuration and its data directory in one file. The program itself only
// contains restore-progress.ts.
export { type BackupResult, type BackupSource, backupTo, writeBackup } from './backup'
export { type BackupHeader, backupHeader, type Sink } from './format'
export {
  checkBackup,
  finishRestore,
  prepareRestore,
  type RestoreOptions,
  type RestoreResult,
  restoreBackup,
} from './restore'
