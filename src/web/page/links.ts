// The link states as they are (one union for every face), uplinks, log and loss counters.
import type { Link, Status } from './api'
import { byId, el, List, setAttribute, setText, show, type View } from './dom'
import { bytes, duration, number } from './format'

type Named<T> = T & { name: string; now: number }

const named = <T>(table: Record<string, T>, now: number): Named<T>[] =>
  Object.entries(table).map(([name, item]) => ({ ...item, name, now }))

function linkView({ name }: Named<Link>): View<Named<Link>> {
  const pill = el('span', { class: 'pill' })
  const note = el('p', { class: 'note' })
  const counts = el('p', { class: 'counts' })
  const node = el('li', {}, el('div', { class: 'row' }, el('h3', {}, name), pill), note, counts)
  return {
    node,
    update({ state, reason, retry_at, delivery, rx, tx, errors, now }) {
      setAttribute(pill, 'data-state', state)
      setText(pill, state)
      const wait = retry_at === undefined ? 0 : Math.ceil((retry_at - now) / 1000)
      const retry = retry_at === undefined ? '' : wait > 0 ? `retry in ${duration(wait)}` : 'retrying'
      setText(note, [reason, retry].filter(Boolean).join(' · '))
      show(note, Boolean(reason || retry))
      const faults = errors > 0 ? ` · ${number(errors)} errors` : ''
      const way = delivery === null ? '' : `${WAYS[delivery] ?? delivery} · `
      setText(counts, `${way}${number(rx)} in · ${number(tx)} out${faults}`)
    },
  }
}

/** how what an uplink sends is confirmed */
const WAYS: Record<string, string> = {
  acked: 'acknowledged',
  best_effort: 'best effort',
  probing: 'asking the peer',
  silent: 'no answer',
}

type Uplink = Status['uplinks'][string]

function uplinkView({ name }: Named<Uplink>): View<Named<Uplink>> {
  const pill = el('span', { class: 'pill' })
  const counts = el('p', { class: 'counts' })
  const node = el('li', {}, el('div', { class: 'row' }, el('h3', {}, name), pill), counts)
  return {
    node,
    update({ cursor, backlog, acked, resent }) {
      // a few records are always on their way
      const behind = backlog > 100
      setAttribute(pill, 'data-state', behind ? 'degraded' : 'up')
      setText(pill, behind ? `${number(backlog)} waiting` : 'in step')
      setText(
        counts,
        `cursor ${number(cursor)} · backlog ${number(backlog)} · acked ${number(acked)} · resent ${number(resent)}`,
      )
    },
  }
}

/** A definition list: label, value, tooltip; `bad` marks a number that should be zero and is not. */
function numbers(parent: HTMLElement): (rows: readonly (readonly [string, string, string?, boolean?])[]) => void {
  const list = new List<readonly [string, string, string?, boolean?]>(
    parent,
    row => row[0],
    ([label]) => {
      const value = el('dd')
      const node = el('div', {}, el('dt', {}, label), value)
      return {
        node,
        update([, text, title = '', bad = false]) {
          setText(value, text)
          setAttribute(value, 'title', title)
          setAttribute(node, 'data-bad', String(bad))
        },
      }
    },
  )
  return rows => list.update(rows)
}

const size = (value: number): string => {
  const text = bytes(value)
  return `${text.value} ${text.unit}`
}

export function createStatus(): (status: Status, now: number) => void {
  const links = new List<Named<Link>>(byId('links'), link => link.name, linkView)
  const uplinks = new List<Named<Uplink>>(byId('uplinks'), uplink => uplink.name, uplinkView)
  const log = numbers(byId('log'))
  const dropped = numbers(byId('dropped'))
  return (status, now) => {
    const allLinks = named(status.links, now)
    links.update(allLinks)
    show(byId('links-empty'), allLinks.length === 0)
    const allUplinks = named(status.uplinks, now)
    uplinks.update(allUplinks)
    show(byId('uplinks-empty'), allUplinks.length === 0)
    const { first_seq, last_seq, committed_seq, bytes: stored, lost, bytes_written_today } = status.log
    log([
      ['First record', number(first_seq)],
      ['Last record', number(last_seq)],
      ['Safe on flash up to', number(committed_seq), `${last_seq - committed_seq} records not yet committed`],
      ['Size', size(stored), `${stored} bytes`],
      ['Written today', size(bytes_written_today), `${bytes_written_today} bytes`],
      ['Lost', number(lost), 'records named in the loss ledger', lost > 0],
    ])
    const { rows, packets, records } = status.dropped
    dropped([
      ['Rows refused', number(rows), 'readings with a wrong value, unit or id', rows > 0],
      ['Packets dropped', number(packets), 'packets that could not be used', packets > 0],
      ['Records dropped', number(records), 'oldest records, dropped because the log was full', records > 0],
      ['Waiting for SQL', number(status.storage.lag_records), 'records the SQL view has yet to take'],
    ])
  }
}
