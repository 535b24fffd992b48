import assert from 'node:assert/strict'
import * as index from '../../../src/index'
import type { Table } from '../rows'
import { library } from '../world'
import { allocatorTables } from './allocator'
import { coreTables } from './cores'
import { faceTables } from './faces'
import { handshakeTables } from './handshake'
import { nodeTables } from './node'
import { pipelineTables } from './pipeline'
import { queryTables } from './queries'
import { runnerTables } from './runner'
import { serviceTables } from './services'

/** The exports of `import { … } from 'os-node'`; the plugins' services come from ensureAndMountPlugin(). */
const EXPORTS = [
  'Node',
  'Standardizer',
  'Engine',
  'Fusion',
  'COMMAND',
  'HandshakeManager',
  'IdAllocator',
  'TransporterManager',
  'ServiceManager',
  'normalizePluginName',
  'listBuiltinPlugins',
  'ensurePluginDefaults',
  'syncAllPluginDefaults',
  'ensureAndMountPlugin',
  'TerminalUi',
  'DisplayProvider',
  'registerDisplayProvider',
  'getDisplayRegistry',
  'renderSection',
  'collectAllSections',
  'DatabaseManager',
]

const reachable: Table = {
  title: 'What the library gives',
  rows: EXPORTS.map(name => ({
    name,
    observe: () => {
      const source = index as Record<string, unknown>
      const built = library as unknown as Record<string, unknown>
      assert.ok(source[name] !== undefined, 'src/index.ts exports it')
      assert.equal(typeof built[name], typeof source[name], 'so does the bundle')
    },
  })),
}

export const libraryTables: readonly Table[] = [
  reachable,
  ...nodeTables,
  ...pipelineTables,
  ...handshakeTables,
  ...allocatorTables,
  ...coreTables,
  ...serviceTables,
  ...faceTables,
  ...runnerTables,
  ...queryTables,
]
