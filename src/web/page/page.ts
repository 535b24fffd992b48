// The page's main part: signs in, asks every two seconds, waits longer while the gateway does not answer, and rests while
// the page is hidden. Between two answers ages and countdowns run on.
import { ApiError, type Dashboard, get, type Packets } from './api'
import { byId, setAttribute, setText, show } from './dom'
import { duration } from './format'
import { createStatus } from './links'
import { createNotices } from './notices'
import { createPackets } from './packets'
import { createReadings } from './readings'

const POLL_MS = 2_000
const MAX_WAIT_MS = 30_000
const TOKEN_KEY = 'os-node-token'
const UNASSIGNED = 4294967295

type Connection = 'opening' | 'up' | 'down' | 'closed'

const updateReadings = createReadings()
const updateStatus = createStatus()
const updateNotices = createNotices()
const packets = createPackets()

let token = sessionStorage.getItem(TOKEN_KEY)
let timer: ReturnType<typeof setTimeout> | undefined
let failures = 0
let retryAt = 0
/** counts rounds; an answer of an older one is not shown */
let round = 0
let shown: Dashboard | null = null
/** gateway's clock minus this machine's, ms */
let skew = 0

function connection(state: Connection, text: string): void {
  setAttribute(byId('connection'), 'data-state', state)
  // a screen reader hears each change once, never the countdown
  setText(byId('connection-text'), text)
}

function showLogin(error: string): void {
  show(byId('board'), false)
  show(byId('login'), true)
  show(byId('forget'), false)
  setText(byId('login-error'), error)
  connection('closed', 'signed out')
  byId('token').focus()
}

function render(): void {
  if (!shown) return
  const now = Date.now() + skew
  updateReadings(shown.latest, now)
  updateStatus(shown.status, now)
  updateNotices(shown.status)
}

function showDashboard(dashboard: Dashboard): void {
  shown = dashboard
  // the stamp is in whole seconds, half a second off on average; a small difference is not corrected
  const difference = dashboard.timestamp * 1000 + 500 - Date.now()
  skew = Math.abs(difference) > 1_500 ? difference : 0
  const { identity, version, uptime_s, time } = dashboard.status
  setText(byId('device'), identity.device_id)
  document.title = `${identity.device_id} · os-node`
  const id = identity.assigned_id
  const facts = [
    id === null || id === 0 || id === UNASSIGNED ? 'no id yet' : `id ${id}`,
    `version ${version}`,
    `up ${duration(uptime_s)}`,
    `time ${time.quality}`,
  ]
  setText(byId('facts'), facts.join(' · '))
  show(byId('login'), false)
  show(byId('board'), true)
  show(byId('forget'), token !== null)
  setAttribute(byId('board'), 'data-stale', 'false')
  connection('up', 'live')
  render()
}

function plan(ms: number): void {
  clearTimeout(timer)
  if (!document.hidden) timer = setTimeout(poll, ms)
}

function failed(thrown: unknown): void {
  const error = thrown instanceof ApiError ? thrown : new ApiError(0, '', String(thrown))
  if (error.status === 401) {
    const refused = token !== null
    token = null
    sessionStorage.removeItem(TOKEN_KEY)
    showLogin(refused ? 'This token is wrong. Check that it is complete, without spaces.' : '')
    return
  }
  failures++
  // full jitter keeps many open pages from coming back at once
  const wait = Math.min(MAX_WAIT_MS, POLL_MS * 2 ** Math.min(failures, 6)) * (0.5 + Math.random() / 2)
  retryAt = Date.now() + wait
  setAttribute(byId('board'), 'data-stale', 'true')
  connection('down', error.status === 0 ? 'gateway not reachable' : error.message)
  if (error.status === 429) setText(byId('login-error'), 'Too many wrong tokens. Trying again in a moment.')
  plan(wait)
}

async function showPackets(mine: number): Promise<void> {
  try {
    const body = await get<Packets>('/api/data/packets?limit=10', token)
    if (mine === round) packets.update(body)
  } catch (thrown) {
    // a database that is off or starting is told in its card; anything else fails the round
    if (!(thrown instanceof ApiError) || thrown.status !== 503) throw thrown
    if (mine === round) packets.refuse(thrown.message)
  }
}

async function poll(): Promise<void> {
  const mine = ++round
  try {
    const body = await get<{ dashboard: Dashboard }>('/api/dashboard?sections=status,latest', token)
    if (mine !== round) return
    showDashboard(body.dashboard)
    await showPackets(mine)
    if (mine !== round) return
    failures = 0
    plan(POLL_MS)
  } catch (thrown) {
    if (mine === round) failed(thrown)
  }
}

byId('login-form').addEventListener('submit', event => {
  event.preventDefault()
  const input = byId('token') as HTMLInputElement
  token = input.value.trim()
  if (token === '') return
  sessionStorage.setItem(TOKEN_KEY, token)
  input.value = ''
  setText(byId('login-error'), '')
  connection('opening', 'signing in')
  void poll()
})

byId('forget').addEventListener('click', () => {
  round++
  clearTimeout(timer)
  token = null
  shown = null
  sessionStorage.removeItem(TOKEN_KEY)
  showLogin('')
})

document.addEventListener('visibilitychange', () => {
  clearTimeout(timer)
  if (document.hidden) return
  if (byId('login').hidden) void poll()
})

setInterval(() => {
  if (document.hidden) return
  render()
  const left = Math.ceil((retryAt - Date.now()) / 1000)
  setAttribute(byId('connection'), 'title', failures > 0 && left > 0 ? `trying again in ${left} s` : '')
}, 1_000)

void poll()
