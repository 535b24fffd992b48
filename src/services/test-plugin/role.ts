// How the program knows that it was started as a part of a stress run: `role` of a thread's data, and this variable of a child
// process that has a channel to its parent.
export const STRESS_ROLE = 'stress'
export const ROLE_VARIABLE = 'OS_NODE_CHILD_ROLE'
