// Versions of the SD image, and installing a new one from an address or a file. Without the image nothing is shown, because only it has slots.
import { useState } from 'preact/hooks'
import { fieldsOf, useAction } from '../lib/action'
import { call } from '../lib/api'
import { live } from '../lib/live'
import { useStore } from '../lib/observable'
import { useResource } from '../lib/resource'
import { may } from '../lib/session'
import { upload } from '../lib/upload'
import { Card, Loaded, Problem, Sent, Table } from '../ui/parts'

interface Slots {
  slots: { slot: string; version: string | null; running: boolean; state: string }[]
  last_update?: { version: string; from: string; outcome: string; reason?: string }
  progress?: { step: string; done: number }
  problem?: string
}

const REFRESH_MS = 5_000

function Install({ busy, reload }: { busy: boolean; reload(): void }) {
  const { busy: asking, act } = useAction(reload)
  const [file, setFile] = useState<File>()
  const [sent, setSent] = useState<number>()
  async function install(source: string): Promise<string> {
    if (!file) {
      await call('POST', '/api/update', { body: { source } })
      return 'The update is fetched; the board restarts when it is written'
    }
    try {
      await upload('/api/update', file, setSent)
    } finally {
      setSent(undefined)
    }
    await call('POST', '/api/update', { body: { size: file.size } })
    return 'The update is uploaded; the board restarts when it is written'
  }
  return (
    <form
      class="line gap-above"
      onSubmit={event => {
        const source = fieldsOf(event)('source').trim()
        void act('The update was not started', () => install(source))
      }}
    >
      <label class="hidden" for="update-source">
        Address of an update
      </label>
      <input
        id="update-source"
        name="source"
        type="url"
        required={!file}
        disabled={file !== undefined}
        pattern="https?://.+"
        placeholder="https://…/os-node.update"
        autocapitalize="none"
        spellcheck={false}
      />
      <input
        type="file"
        aria-label="Update file"
        accept=".update"
        disabled={!may('admin')}
        onChange={event => setFile(event.currentTarget.files?.[0])}
      />
      <button type="submit" class="plain" disabled={busy || asking || !may('admin')}>
        Install
      </button>
      <Sent percent={sent} />
    </form>
  )
}

function Shown() {
  const found = useResource<Slots>('/api/update', REFRESH_MS)
  return (
    <Card title="Versions">
      <Loaded from={found} what="versions">
        {({ slots, last_update: last, progress, problem }) => (
          <>
            <Table columns={['Slot', 'Version', 'State']}>
              {slots.map(({ slot, version, running, state }) => (
                <tr key={slot}>
                  <td>{slot}</td>
                  <td>{version ?? '–'}</td>
                  <td>{running ? `running, ${state}` : state}</td>
                </tr>
              ))}
            </Table>
            {last && (
              <p class="quiet small">
                Last update: {last.from} → {last.version}, {last.outcome}
                {last.reason && `: ${last.reason}`}
              </p>
            )}
            {problem && <Problem>Not installed: {problem}</Problem>}
            {progress && (
              <p role="status">
                Installing: {progress.step} {Math.round(progress.done * 100)} %
              </p>
            )}
            <Install busy={progress !== undefined} reload={found.reload} />
          </>
        )}
      </Loaded>
    </Card>
  )
}

export function Versions() {
  return useStore(live).dashboard?.service?.updates ? <Shown /> : null
}
