/** The text of src/units/atoms.generated.ts, made from the unit package. */
export function generateAtoms(): string
