// The frame around every view: header with the state of the connection, navigation, and the line with results of
// actions. On a phone the navigation is a bar at the foot with the first four views and a panel for the others.
import type { ComponentChildren } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { isAssigned } from '../../../lib/assigned-id'
import { duration } from '../../../units/display'
import { said, unsay } from '../lib/action-message'
import { askNow, live } from '../lib/live'
import { useStore } from '../lib/observable'
import { useSeconds } from '../lib/resource'
import { href, route } from '../lib/route'
import { session, signOut } from '../lib/session'
import { chooseTheme, type Theme, theme } from '../lib/theme'
import { Icon, type IconName } from './icons'
import { Button } from './parts'

export interface NavItem {
  readonly name: IconName
  readonly title: string
}

const IN_BAR = 4

function Connection() {
  const { connection, problem, streaming } = useStore(live)
  const { state } = useStore(session)
  const kind = state === 'out' ? 'closed' : connection
  const text = { closed: 'signed out', opening: 'connecting', up: 'live', away: 'offline' }[kind]
  return (
    <p class="connection" data-state={kind} title={problem || (streaming ? 'events' : '')}>
      <span class="dot" aria-hidden="true" />
      <span>{text}</span>
    </p>
  )
}

const NEXT: Record<Theme, Theme> = { auto: 'dark', dark: 'light', light: 'auto' }
const SIGN: Record<Theme, string> = { auto: '◐', dark: '☾', light: '☀' }

function ThemeButton() {
  const now = useStore(theme)
  return (
    <button
      type="button"
      class="plain square"
      aria-label={`Theme: ${now}. Change to ${NEXT[now]}`}
      title={`Theme: ${now}`}
      onClick={() => chooseTheme(NEXT[now])}
    >
      <span aria-hidden="true">{SIGN[now]}</span>
    </button>
  )
}

function Header() {
  const { dashboard } = useStore(live)
  const { token, username, role, state } = useStore(session)
  const status = dashboard?.status
  const id = status?.identity.assigned_id
  const known = isAssigned(id)
  return (
    <header class="bar">
      <img class="mark" src="/favicon.svg" alt="" width="36" height="36" />
      <div class="who">
        <p class="device">{status?.identity.device_id || 'os-node'}</p>
        <p class="quiet small">
          {status
            ? `${known ? `id ${id}` : 'no id yet'} · ${status.version} · up ${duration(status.uptime_s)}`
            : 'gateway'}
        </p>
      </div>
      <Connection />
      <ThemeButton />
      {token && state === 'in' && (
        <Button title={username ? `${username}, ${role}` : undefined} onClick={() => void signOut()}>
          Sign out
        </Button>
      )}
    </header>
  )
}

/** The gateway is unreachable: announced once to a screen reader; the countdown is only visible. */
function Away() {
  const { connection, problem, retryAt } = useStore(live)
  const { state } = useStore(session)
  useSeconds()
  const shown = connection === 'away' && state !== 'out'
  const left = Math.max(0, Math.ceil((retryAt - Date.now()) / 1000))
  return (
    <div class="away" data-shown={shown}>
      <p role="alert">{shown && `${problem} Values shown may be out of date.`}</p>
      {shown && (
        <>
          <span class="small" aria-hidden="true">
            {left > 0 ? `retry in ${left} s` : 'retrying'}
          </span>
          <Button onClick={askNow}>Retry now</Button>
        </>
      )}
    </div>
  )
}

function Navigation({ places, here }: { places: readonly NavItem[]; here: string }) {
  const [open, setOpen] = useState(false)
  useEffect(() => route.listen(() => setOpen(false)), [])
  const link = ({ name, title }: NavItem) => (
    <li key={name}>
      <a href={href([name])} aria-current={name === here ? 'page' : undefined}>
        <Icon name={name} />
        <span>{title}</span>
      </a>
    </li>
  )
  const hidden = places.slice(IN_BAR)
  return (
    <nav class="nav" aria-label="Views" data-open={open} onKeyDown={event => event.key === 'Escape' && setOpen(false)}>
      <ul class="first">{places.slice(0, IN_BAR).map(link)}</ul>
      <button
        type="button"
        class="more"
        aria-expanded={open}
        aria-controls="more-views"
        data-here={hidden.some(({ name }) => name === here)}
        onClick={() => setOpen(!open)}
      >
        <Icon name="more" />
        <span>More</span>
      </button>
      <ul class="rest" id="more-views">
        {hidden.map(link)}
      </ul>
    </nav>
  )
}

function Said() {
  const now = useStore(said)
  return (
    <div class="said" aria-live="polite" role="status">
      {now && (
        <p key={now.count} data-bad={now.bad}>
          <span>{now.text}</span>
          <button type="button" class="close" aria-label="Dismiss" onClick={unsay}>
            ×
          </button>
        </p>
      )}
    </div>
  )
}

export function PageShell({
  places,
  here,
  children,
}: {
  places: readonly NavItem[]
  here: string
  children: ComponentChildren
}) {
  const { connection } = useStore(live)
  const { state } = useStore(session)
  return (
    <>
      <button type="button" class="skip" onClick={() => document.getElementById('main')?.focus()}>
        Skip to the content
      </button>
      <Header />
      <Away />
      <div class="frame" data-nav={state === 'in'}>
        {state === 'in' && <Navigation places={places} here={here} />}
        <main id="main" tabIndex={-1} data-stale={connection === 'away'}>
          {children}
        </main>
      </div>
      <Said />
    </>
  )
}
