import type { Table } from '../rows'
import { engineRows } from './engine'
import { mediaRows } from './media'
import { serviceRows } from './service'

export const configTables: readonly Table[] = [
  { title: 'Configuration: media and plugins', rows: mediaRows },
  { title: 'Configuration: engine and security', rows: engineRows },
  { title: 'Configuration: storage and HTTP service', rows: serviceRows },
]
