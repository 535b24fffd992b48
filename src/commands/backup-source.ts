// What a backup is made of, from the configuration: on the command line and for the page.
import { resolve } from 'node:path'
import type { BackupSource } from '../backup'
import type { ConfigStore } from '../config'
import { systemClock } from '../lib/clock'

export function sourceOf(config: ConfigStore, version: string, passphrase?: string): BackupSource {
  const { device_id, assigned_id, security_settings } = config.config
  const store = security_settings.secure_session_store
  return {
    dataDir: config.dataDir,
    config: config.texts(),
    except: [config.path, ...(store ? [resolve(config.baseDir, store)] : [])],
    about: { version, created: systemClock.wall(), device_id, assigned_id },
    passphrase,
  }
}
