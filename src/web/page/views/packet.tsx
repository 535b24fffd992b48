// One stored packet: its readings, its other data, and on request its bytes as a FULL packet on the wire.
import { useAnswer } from '../lib/action'
import { parseHex } from '../lib/hex'
import { executeJson } from '../lib/jobs'
import { useResource } from '../lib/resource'
import { href } from '../lib/route'
import { may } from '../lib/session'
import type { Packet } from '../lib/types'
import { Button, Card, Loaded, Problem } from '../ui/parts'
import { TreeView } from '../ui/tree'
import { Decoded, ReadingsTable, readingsOf } from './decode'

export const packetTime = (packet: Packet): Date =>
  new Date(Number(packet.payload_json.t_raw ?? packet.timestamp_raw * 1000))

/** The log has the content of a packet, not its bytes; the gateway's own pipeline encodes it again. */
async function bytesOf(packet: Packet): Promise<Uint8Array> {
  const { payload_json: fact, device_id, device_status } = packet
  const sensors = readingsOf(fact)
    .filter(({ value }) => value !== null)
    .map(({ id, status, value, unit }) => [id, status || 'OK', value, unit])
  const made = await executeJson([
    'inject',
    '--module',
    'fuse',
    '--device-id',
    device_id,
    '--status',
    device_status,
    '--sensors',
    JSON.stringify(sensors),
  ])
  const bytes = parseHex(findHex(made))
  if (!bytes) throw new Error('the gateway returned no bytes')
  return bytes
}

/** the longest hex text in a result, at any depth */
function findHex(value: unknown): string {
  if (typeof value === 'string') return /^[0-9a-f]{32,}$/i.test(value) ? value : ''
  if (typeof value !== 'object' || value === null) return ''
  return Object.values(value)
    .map(findHex)
    .reduce((longest, text) => (text.length > longest.length ? text : longest), '')
}

function OnTheWire({ packet }: { packet: Packet }) {
  const { value: bytes, error, busy, ask } = useAnswer<Uint8Array>()
  return (
    <Card title="On the wire">
      {bytes ? (
        <Decoded bytes={bytes} />
      ) : (
        <>
          <p class="quiet small gap">
            The log keeps the readings of a packet, not its bytes. The gateway can encode the same readings as a FULL
            packet with the current time.
          </p>
          <Button class="primary" disabled={busy || !may('operator')} onClick={() => void ask(() => bytesOf(packet))}>
            {busy ? 'Encoding …' : 'Encode packet'}
          </Button>
        </>
      )}
      {error !== undefined && <Problem>{error}</Problem>}
    </Card>
  )
}

export function PacketView({ uuid }: { uuid: string }) {
  const found = useResource<{ packet: Packet }>(`/api/data/packets/${encodeURIComponent(uuid)}`)
  return (
    <Loaded from={found} what="stored packets">
      {({ packet }) => (
        <>
          <Card title={`Packet of ${packet.device_id}`}>
            <dl class="pairs gap">
              <dt>Time</dt>
              <dd>{packetTime(packet).toLocaleString()}</dd>
              <dt>Device</dt>
              <dd>
                <a href={href(['readings', packet.device_id])}>{packet.device_id}</a>, {packet.device_status}
              </dd>
              <dt>Stored</dt>
              <dd>{new Date(packet.created_at * 1000).toLocaleString()}</dd>
              <dt>UUID</dt>
              <dd class="mono break">{packet.packet_uuid}</dd>
            </dl>
            <ReadingsTable fact={packet.payload_json} />
            <details class="gap-above">
              <summary>As stored</summary>
              <TreeView value={packet.payload_json} />
            </details>
          </Card>
          <OnTheWire packet={packet} />
        </>
      )}
    </Loaded>
  )
}
