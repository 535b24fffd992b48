// A backup as a file of the browser. Putting one back is a command: a running gateway does not replace its own state.
import { useState } from 'preact/hooks'
import { currentToken, failure, open } from '../lib/api'
import { say, sayError } from '../lib/say'
import { may } from '../lib/session'
import { Card } from '../ui/parts'

/** Hands the file to the browser under the name that the gateway gave it. */
async function keep(answer: Response): Promise<void> {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(await answer.blob())
  link.download = /filename="([^"]+)"/.exec(answer.headers.get('Content-Disposition') ?? '')?.[1] ?? 'os-node.backup'
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000)
}

export function Backup() {
  const [busy, setBusy] = useState(false)
  async function save(event: SubmitEvent): Promise<void> {
    event.preventDefault()
    const passphrase = String(new FormData(event.currentTarget as HTMLFormElement).get('passphrase') ?? '')
    setBusy(true)
    try {
      const answer = await open('POST', '/api/backup', { body: passphrase ? { passphrase } : {} })
      if (!answer.ok) throw await failure(answer, currentToken())
      await keep(answer)
      say('The backup is downloaded')
    } catch (thrown) {
      sayError(thrown, 'No backup was made')
    }
    setBusy(false)
  }
  return (
    <Card title="Backup">
      <form class="line" onSubmit={event => void save(event)}>
        <label class="hidden" for="backup-passphrase">
          Passphrase
        </label>
        <input
          id="backup-passphrase"
          name="passphrase"
          type="password"
          minLength={8}
          autocomplete="new-password"
          placeholder="Passphrase, to include secrets"
          disabled={!may('admin')}
        />
        <button type="submit" class="plain" disabled={busy || !may('operator')}>
          Download backup
        </button>
      </form>
      <p class="quiet small">
        Configuration, log and identity. Users, tokens and keys only with a passphrase. Restore: os-node restore FILE,
        while no gateway runs.
      </p>
    </Card>
  )
}
