// Permissions over HTTP: a viewer reads; an operator also switches media, starts and stops plugins, and runs read-only
// commands; an admin may do everything.
export const ROLES = ['viewer', 'operator', 'admin'] as const
export type Role = (typeof ROLES)[number]

export const isRole = (value: unknown): value is Role => ROLES.includes(value as Role)

/** True if `role` has the permissions of `needed`. */
export const mayAct = (role: Role, needed: Role): boolean => ROLES.indexOf(role) >= ROLES.indexOf(needed)
