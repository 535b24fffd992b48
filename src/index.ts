export { OsError } from './lib/errors'
