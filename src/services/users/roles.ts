// Who may do what over HTTP: a viewer reads; an operator also switches media, starts and stops plugins, and runs commands that
// only read; an admin does everything.
export const ROLES = ['viewer', 'operator', 'admin'] as const
export type Role = (typeof ROLES)[number]

export const isRole = (value: unknown): value is Role => ROLES.includes(value as Role)

/** True when `role` may do what is open to `needed`. */
export const mayAct = (role: Role, needed: Role): boolean => ROLES.indexOf(role) >= ROLES.indexOf(needed)
