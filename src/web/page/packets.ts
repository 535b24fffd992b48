// The newest packets of the SQL view, a few values of each; where the database is off or starting, its own words.
import type { Packet, Packets } from './api'
import { byId, el, List, setText, show, type View } from './dom'
import { friendly, number } from './format'

const VALUES_SHOWN = 4

/** `cpu_load 12 % · …`, and how many more there are */
function summary(payload: Record<string, unknown>): { text: string; more: number } {
  const parts: string[] = []
  let count = 0
  for (let n = 1; payload[`s${n}_id`] !== undefined; n++) {
    count++
    if (parts.length >= VALUES_SHOWN) continue
    const value = payload[`s${n}_v`]
    const text = friendly(typeof value === 'number' ? value : null, String(payload[`s${n}_u`] ?? ''))
    parts.push(`${payload[`s${n}_id`]} ${text.value}${text.unit ? ` ${text.unit}` : ''}`)
  }
  return { text: parts.join(' · '), more: count - parts.length }
}

function packetView(packet: Packet): View<Packet> {
  const time = new Date(Number(packet.payload_json.t_raw ?? packet.timestamp_raw * 1000))
  const { text, more } = summary(packet.payload_json)
  const today = time.toDateString() === new Date().toDateString()
  const node = el(
    'tr',
    { title: packet.packet_uuid },
    el(
      'td',
      { class: 'time' },
      el('time', { datetime: time.toISOString() }, today ? time.toLocaleTimeString() : time.toLocaleString()),
    ),
    el('td', { class: 'device' }, packet.device_id),
    el('td', { class: 'state' }, packet.device_status),
    el('td', { class: 'values' }, text, ...(more > 0 ? [el('span', { class: 'quiet' }, ` +${more}`)] : [])),
  )
  return { node, update: () => undefined }
}

export interface PacketsView {
  update(body: Packets): void
  /** says why there are none */
  refuse(reason: string): void
}

export function createPackets(): PacketsView {
  const list = new List<Packet>(byId('packets'), packet => packet.packet_uuid, packetView)
  const note = byId('packets-note')
  const say = (text: string): void => {
    setText(note, text)
    show(note, text !== '')
  }
  return {
    update({ packets, total }) {
      list.update(packets)
      show(byId('packets-frame'), packets.length > 0)
      setText(byId('packets-total'), total > 0 ? `${number(total)} stored` : '')
      say(packets.length === 0 ? 'No packet is stored yet.' : '')
    },
    refuse(reason) {
      list.update([])
      show(byId('packets-frame'), false)
      setText(byId('packets-total'), '')
      say(`${reason[0]?.toUpperCase() ?? ''}${reason.slice(1)}.`)
    },
  }
}
