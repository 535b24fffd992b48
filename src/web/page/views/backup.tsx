// Downloads a backup as a file, and restores one, uploaded in pieces: the gateway checks it, stops, and starts with its
// state.
import { useRef, useState } from 'preact/hooks'
import { fieldsOf, useAction } from '../lib/action'
import { call, currentToken, failure, open } from '../lib/api'
import { may } from '../lib/session'
import { upload } from '../lib/upload'
import { Button, Card, Confirm, Sent } from '../ui/parts'

/** Saves the file in the browser under the gateway's name for it. */
async function keep(answer: Response): Promise<void> {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(await answer.blob())
  link.download = /filename="([^"]+)"/.exec(answer.headers.get('Content-Disposition') ?? '')?.[1] ?? 'os-node.backup'
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000)
}

const RESTORE_MS = 600_000

export function Backup() {
  const { busy, act } = useAction()
  const [file, setFile] = useState<File>()
  const [confirming, setConfirming] = useState(false)
  const form = useRef<HTMLFormElement>(null)
  const [sent, setSent] = useState<number>()
  async function restore(): Promise<string> {
    const passphrase = String(new FormData(form.current!).get('passphrase'))
    try {
      await upload('/api/restore', file!, setSent)
    } finally {
      setSent(undefined)
    }
    const body = { size: file!.size, ...(passphrase && { passphrase }) }
    await call('POST', '/api/restore', { body, timeoutMs: RESTORE_MS })
    return 'The backup is restored; the gateway restarts with it'
  }
  async function save(passphrase: string): Promise<string> {
    const answer = await open('POST', '/api/backup', { body: passphrase ? { passphrase } : {} })
    if (!answer.ok) throw await failure(answer, currentToken())
    await keep(answer)
    return 'The backup is downloaded'
  }
  return (
    <Card title="Backup">
      <form
        class="line"
        ref={form}
        onSubmit={event => {
          const passphrase = fieldsOf(event)('passphrase')
          void act('No backup was made', () => save(passphrase))
        }}
      >
        <label class="hidden" for="backup-passphrase">
          Passphrase
        </label>
        <input
          id="backup-passphrase"
          name="passphrase"
          type="password"
          minLength={8}
          autocomplete="new-password"
          placeholder="Passphrase of the secrets"
          disabled={!may('admin')}
        />
        <button type="submit" class="plain" disabled={busy || !may('operator')}>
          Download backup
        </button>
        <input
          type="file"
          aria-label="Backup file"
          disabled={!may('admin')}
          onChange={event => setFile(event.currentTarget.files?.[0])}
        />
        <Button disabled={busy || !file} onClick={() => setConfirming(true)}>
          Restore
        </Button>
      </form>
      <p class="quiet small">Configuration, log and identity. Users, tokens and keys only with a passphrase.</p>
      <Sent percent={sent} />
      {confirming && (
        <Confirm
          title={`Restore ${file!.name}?`}
          action="Restore"
          onYes={() => void act('Nothing was restored', restore)}
          onClose={() => setConfirming(false)}
        >
          <p>
            Configuration, log and identity are replaced, and the gateway restarts. Without a passphrase it then makes a
            new token and shows it on its console. The gateway of the backup must not run elsewhere.
          </p>
        </Confirm>
      )}
    </Card>
  )
}
