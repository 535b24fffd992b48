import type { Table } from '../rows'
import { allocatorTables } from './allocator'
import { coreTables } from './cores'
import { faceTables } from './faces'
import { handshakeTables } from './handshake'
import { nodeTables } from './node'
import { pipelineTables } from './pipeline'
import { serviceTables } from './services'

export const libraryTables: readonly Table[] = [
  ...nodeTables,
  ...pipelineTables,
  ...handshakeTables,
  ...allocatorTables,
  ...coreTables,
  ...serviceTables,
  ...faceTables,
]
