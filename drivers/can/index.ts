// Declaration of the CAN medium. medium.ts describes its work and its errors.

import { readFileSync } from 'node:fs'
import { orElse } from '../../src/lib/errors'
import type { Medium, MediumDriver } from '../../src/links/contracts'
import { checkOptions } from '../../src/links/driver-options'
import { type CanOptions, canOptions, STANDARD_PACKET } from './can-options'
import { CanMedium } from './medium'

/** The packet limit of this kernel's ISO-TP: kernels before 6.5 have no such parameter and carry 4095 bytes. */
const kernelMax = (): number =>
  orElse(0, () => Number(readFileSync('/sys/module/can_isotp/parameters/max_pdu_size', 'latin1'))) || STANDARD_PACKET

export const canDriver: MediumDriver<CanOptions> = {
  medium: 'CAN',
  schema: canOptions as never,
  create: (name, options, context): Medium =>
    new CanMedium(name, checkOptions(canOptions, options, name), { ...context, kernelMax }),
}
