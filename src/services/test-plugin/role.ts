// Marks a part of a stress run: `role` in a thread's data, and this variable for a child process with a channel to its
// parent.
export const STRESS_ROLE = 'stress'
export const ROLE_VARIABLE = 'OS_NODE_CHILD_ROLE'
