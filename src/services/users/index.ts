export { mayAct, ROLES, type Role } from './roles'
export { firstToken, makeToken, newToken, storedToken } from './token'
export { type UserChange, UserStore, userKey } from './user-store'
