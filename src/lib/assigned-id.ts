// The assigned id (AID) of a device: 0 and 4294967295 mean that it has none (specification, "States and transitions").

export const UNASSIGNED = 4294967295

export const isAssigned = (aid: unknown): aid is number =>
  Number.isInteger(aid) && Number(aid) > 0 && Number(aid) < UNASSIGNED
