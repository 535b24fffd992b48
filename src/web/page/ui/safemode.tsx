// Safe mode, on every view: why the gateway keeps its links off, and the button to leave it for users who may.
import { useAction } from '../lib/action'
import { call } from '../lib/api'
import { askNow, live } from '../lib/live'
import { useStore } from '../lib/observable'
import { may } from '../lib/session'
import { Button } from './parts'

export function SafeMode() {
  const reason = useStore(live).dashboard?.status.safe_mode
  const { busy, act } = useAction(askNow)
  if (!reason) return null
  const leave = async (): Promise<string> => {
    await call('POST', '/api/safe-mode', { body: { leave: true }, timeoutMs: 30_000 })
    return 'Safe mode ended: links and database are open'
  }
  return (
    <section class="card notices gap" aria-label="Safe mode">
      <p data-bad="true">Safe mode: {reason}. Links, plugins and the database are off.</p>
      <p>
        {may('admin') ? (
          <Button disabled={busy} onClick={() => void act('Safe mode was not ended', leave)}>
            {busy ? 'Opening links …' : 'Leave safe mode'}
          </Button>
        ) : (
          'An admin can leave safe mode here, or with os-node safe-mode --leave on the gateway.'
        )}
      </p>
    </section>
  )
}
