export { hashToken, makeToken, TokenVerifier, verifyToken } from './auth'
export type * from './context'
export { ROUTES, type Route } from './routes'
export { WebServer, type WebServerOptions } from './server'
