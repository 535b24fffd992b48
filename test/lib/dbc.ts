// A DBC file, parsed without pauses.
import { parsingDbc } from '../../drivers/can/signals/dbc'
import type { Dbc } from '../../drivers/can/signals/model'
import { atOnce } from '../../src/lib/slices'

export const parseDbc = (text: string): Dbc => atOnce(parsingDbc(text))
