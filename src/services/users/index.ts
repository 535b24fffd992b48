export { isRole, mayAct, ROLES, type Role } from './roles'
export { type NewUser, type UserChange, UserStore, type UserStoreOptions, type UserView, userKey } from './store'
export { makeToken, newToken, storedToken } from './token'
