export { isRole, mayAct, ROLES, type Role } from './roles'
export { type NewUser, type UserChange, UserStore, type UserStoreOptions, type UserView, userKey } from './store'
export { firstToken, makeToken, newToken, storedToken } from './token'
