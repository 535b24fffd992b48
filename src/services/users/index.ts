export { isRole, mayAct, ROLES, type Role } from './roles'
export { firstToken, makeToken, newToken, storedToken } from './token'
export { type NewUser, type UserChange, UserStore, type UserStoreOptions, type UserView, userKey } from './user-store'
