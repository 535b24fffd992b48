// session forget: lets a device that moved and lost its keys make a new session without waiting (X37).
import type { Verb } from '../verb'

export const sessionForget: Verb = {
  name: 'session forget',
  summary: 'reset the session key of a device',
  description:
    'A key that a device confirmed is replaced only from the address of that device, or after it was silent for ' +
    'security_settings.rekey_after_s (with require_secure: secure_session_expire_seconds). This ends the wait for one device.',
  examples: ['os-node session forget 12'],
  options: { aid: { type: 'integer', min: 1, max: 4_294_967_295, required: true, help: 'assigned id of the device' } },
  operands: ['aid'],
  where: 'gateway',
  async run({ gateway }, { aid }) {
    return { value: { assigned_id: Number(aid), forgotten: gateway!.forgetSession(Number(aid)) } }
  },
  text: ({ assigned_id, forgotten }) =>
    forgotten ? `the session of id ${assigned_id} is forgotten` : `id ${assigned_id} has no session`,
}
