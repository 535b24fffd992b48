// Safe mode, on every view: why the gateway keeps its links off, and the way out for who may take it.
import { useState } from 'preact/hooks'
import { call } from '../lib/api'
import { askNow, live } from '../lib/live'
import { useStore } from '../lib/observable'
import { say, sayError } from '../lib/say'
import { may } from '../lib/session'

export function SafeMode() {
  const reason = useStore(live).dashboard?.status.safe_mode
  const [busy, setBusy] = useState(false)
  if (!reason) return null
  async function leave(): Promise<void> {
    setBusy(true)
    try {
      await call('POST', '/api/safe-mode', { body: { leave: true }, timeoutMs: 30_000 })
      say('Left safe mode: links and database are open')
    } catch (thrown) {
      sayError(thrown, 'Still in safe mode')
    }
    setBusy(false)
    askNow()
  }
  return (
    <section class="card notices gap" aria-label="Safe mode">
      <p data-bad="true">Safe mode: {reason}. Links, plugins and the database are off.</p>
      <p>
        {may('admin') ? (
          <button type="button" class="plain" disabled={busy} onClick={() => void leave()}>
            {busy ? 'Opening links …' : 'Leave safe mode'}
          </button>
        ) : (
          'An admin can leave it here, or by os-node safe-mode --leave on the gateway.'
        )}
      </p>
    </section>
  )
}
