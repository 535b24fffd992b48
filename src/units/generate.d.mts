/** The text of src/units/atoms.generated.json, made from the unit package. */
export function generateAtoms(): string
