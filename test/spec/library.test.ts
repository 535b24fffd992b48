// Every class, method, parameter, default and return shape of the specification's library tables.
import { libraryTables } from './library/tables'
import { run } from './rows'

run(libraryTables)
