// safe-mode: shows whether repeated crashes led to safe mode, and leaves it (R25).
import type { SafeModeReport } from '../../gateway/guard/crashes'
import type { Verb } from '../verb'

export const safeMode: Verb<SafeModeReport & { left?: true }> = {
  name: 'safe-mode',
  summary: 'show safe mode, or leave it',
  description:
    'After five crashes in a row a gateway starts with its links off. --leave opens them at once; after a change of the configuration ' +
    'or the version the next start tries them automatically. OS_NODE_SAFE_MODE=on or off decides for one start.',
  examples: ['os-node safe-mode', 'os-node safe-mode --leave'],
  options: { leave: { type: 'boolean', help: 'open the links and reset the crash count' } },
  where: 'either',
  changes: ({ leave }) => leave === true,
  run: async (context, { leave = false }) => ({
    value: { ...(await context.safeMode(leave === true)), ...(leave === true && { left: true }) },
  }),
  text({ active, reason, crashes, left }, paint) {
    if (active) return paint.bad(`safe mode: ${reason}`)
    if (left) return 'no safe mode; crashes are counted from 0 again'
    return crashes > 0 ? `no safe mode; crashes in a row: ${crashes}` : 'no safe mode'
  },
}
