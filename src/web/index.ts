export { TokenVerifier } from './auth'
export { WebServer } from './server'
export { webTls } from './tls'
