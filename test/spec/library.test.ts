// Every class, method, parameter, default and return shape of the specification's library tables.
import { allocatorTables } from './library/allocator'
import { coreTables } from './library/cores'
import { faceTables } from './library/faces'
import { handshakeTables } from './library/handshake'
import { nodeTables } from './library/node'
import { pipelineTables } from './library/pipeline'
import { serviceTables } from './library/services'
import { run, type Table } from './rows'

export const libraryTables: readonly Table[] = [
  ...nodeTables,
  ...pipelineTables,
  ...handshakeTables,
  ...allocatorTables,
  ...coreTables,
  ...serviceTables,
  ...faceTables,
]

run(libraryTables)
