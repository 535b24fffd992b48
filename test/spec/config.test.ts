// Every configuration key of the specification: changed, saved, refused out of range, and its effect.
import { configTables } from './config/tables'
import { run } from './rows'

run(configTables)
