// The error of wire/ for invalid bytes or text. It has a code of the errors table, like every error here; lib/errors
// converts it to an OsError if needed (wire and lib are on the same floor).

export class WireError extends RangeError {
  readonly code: 'BAD_TEXT' | 'BAD_PACKET'

  constructor(code: 'BAD_TEXT' | 'BAD_PACKET', message: string) {
    super(message)
    this.name = 'WireError'
    this.code = code
  }
}
