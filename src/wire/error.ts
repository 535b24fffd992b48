// What wire/ throws: bytes or text that are not of their form. It carries a code of the errors table, as every error here
// does; lib/errors turns it into an OsError where one is needed (wire is beside lib, not above it).

export class WireError extends RangeError {
  readonly code: 'BAD_TEXT' | 'BAD_PACKET'

  constructor(code: 'BAD_TEXT' | 'BAD_PACKET', message: string) {
    super(message)
    this.name = 'WireError'
    this.code = code
  }
}
