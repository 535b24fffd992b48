// The newest state of the gateway: the dashboard every few seconds; in between readings and link states by events, if
// the gateway sends them. A gateway that does not answer is queried again after a growing, randomized delay; while the
// page is hidden nothing is requested. The last state stays on the page, marked as old, until the gateway is back.
import { asApiError, get, onRefused } from './api'
import type { Event } from './eventparser'
import { follow } from './events'
import { History } from './history'
import { type NamedLink, Newest, type Round } from './newest'
import { Store } from './observable'
import { Meter, retryDelayMs } from './rates'
import { route, takeToken } from './route'
import { admitted, ended, forget, renew, session, signInByLink } from './session'
import { suggestTheme } from './theme'
import type { Dashboard, JobInfo, Readings, UiConfig } from './types'

const POLL_MS = 2_000
const EVENTS_AGAIN_MS = 15_000
const DRAW_MS = 200
const WHOLE_EVERY = 6
/** for a hidden tab: the idle time-out of a session */
const FORGET_MS = 1_800_000

interface Live {
  connection: 'opening' | 'up' | 'away'
  /** the error message of the gateway, or that it was not reached */
  problem: string
  /** ms of this machine's clock: next query while it is unreachable */
  retryAt: number
  dashboard: Dashboard | null
  /** the gateway's clock minus this machine's, ms */
  skew: number
  /** readings and link states arrive as events */
  streaming: boolean
}

export const live = new Store<Live>({
  connection: 'opening',
  problem: '',
  retryAt: 0,
  dashboard: null,
  skew: 0,
  streaming: false,
})
export const history = new History()
export const meter = new Meter()
/** the newest job of an event */
export const jobNews = new Store<JobInfo | null>(null)

let timer: ReturnType<typeof setTimeout> | undefined
let failures = 0
/** rounds since events arrive */
let light = 0
/** counts rounds; an answer of an older one is dropped */
let round = 0
let stream: AbortController | undefined
let streamBlockedUntil = 0
let drawing: ReturnType<typeof setTimeout> | undefined
const newest = new Newest()
/** web_user.ui: interval of the rounds while events arrive */
let pace = 5_000

/** The gateway's settings of the page. */
export const ui = new Store<UiConfig>({})
ui.listen(() => {
  const { ui_refresh_seconds, ui_theme, ui_compact } = ui.value
  if (typeof ui_refresh_seconds === 'number') pace = Math.max(1, ui_refresh_seconds) * 1000
  suggestTheme(ui_theme)
  document.documentElement.dataset.compact = String(ui_compact === true)
})

async function learnUi(): Promise<void> {
  try {
    ui.set((await get<{ ui: UiConfig }>('/api/ui/config')).ui)
  } catch {
    // without settings the page has its default look; the rounds report trouble with the gateway
  }
}

/** the gateway's clock now, ms */
export const now = (): number => Date.now() + live.value.skew

function plan(ms: number): void {
  clearTimeout(timer)
  if (!document.hidden) timer = setTimeout(poll, ms)
}

async function poll(): Promise<void> {
  const mine = ++round
  try {
    // events bring the readings; a complete round now and then adds what a full stream had to skip
    const whole = !live.value.streaming || light++ % WHOLE_EVERY === 0
    const path = `/api/dashboard?sections=status${whole ? ',latest' : ''}`
    const body = await get<{ dashboard: Round }>(path)
    if (mine !== round) return
    if (failures > 0 || session.value.state !== 'in') void learnUi()
    // the stream ended because the gateway was down; it is back now
    if (failures > 0) streamBlockedUntil = 0
    failures = 0
    admitted()
    take(body.dashboard)
    openStream()
    // the first rates need a second round
    plan(live.value.streaming && meter.rates ? pace : Math.min(POLL_MS, pace))
  } catch (thrown) {
    if (mine === round) failed(thrown)
  }
}

function take(dashboard: Round): void {
  // the timestamp is in whole seconds, half a second off on average; a small difference is not corrected
  const difference = dashboard.timestamp * 1000 + 500 - Date.now()
  const skew = Math.abs(difference) > 1_500 ? difference : 0
  newest.round(dashboard)
  for (const reading of dashboard.latest ?? []) history.add(reading)
  meter.add(dashboard.status, performance.now())
  live.patch({ connection: 'up', problem: '', retryAt: 0, dashboard: newest.over(dashboard), skew })
}

function failed(thrown: unknown): void {
  const { status, message } = asApiError(thrown)
  stopStream()
  // onRefused below reports it
  if (status === 401) return
  failures++
  // randomized, so that many open pages do not return simultaneously
  const wait = retryDelayMs(failures, Math.random())
  const problem = status === 0 ? 'The gateway does not answer.' : `The gateway answers: ${message}.`
  live.patch({ connection: 'away', problem, retryAt: Date.now() + wait })
  plan(wait)
}

/** Draws the changes from events, together with those of the next moment. */
function drawSoon(): void {
  if (drawing !== undefined) return
  drawing = setTimeout(() => {
    drawing = undefined
    const { dashboard } = live.value
    if (dashboard) live.patch({ dashboard: newest.over(dashboard) })
  }, DRAW_MS)
}

function takeEvent({ name, data }: Event): void {
  if (name === 'job') jobNews.set(data as JobInfo)
  if (name === 'link' && newest.putLink(data as NamedLink)) drawSoon()
  if (name === 'reading' && newest.putReading(data as Readings)) {
    history.add(data as Readings)
    drawSoon()
  }
}

/** Events only make the page faster: without them the rounds alone are enough. */
function openStream(): void {
  if (stream || document.hidden || Date.now() < streamBlockedUntil) return
  const mine = new AbortController()
  stream = mine
  const opened = follow('/api/events?kinds=readings,links,jobs', mine.signal, event => {
    if (stream !== mine) return
    if (!live.value.streaming) live.patch({ streaming: true })
    takeEvent(event)
  })
  opened
    .catch(thrown => {
      // a gateway without events will not have them soon
      if (asApiError(thrown).status === 404) streamBlockedUntil = Number.POSITIVE_INFINITY
    })
    .finally(() => {
      if (stream !== mine) return
      streamBlockedUntil = Math.max(streamBlockedUntil, Date.now() + EVENTS_AGAIN_MS)
      stopStream()
      // it may have ended because the gateway stopped
      plan(0)
    })
}

function stopStream(): void {
  const old = stream
  stream = undefined
  old?.abort()
  live.patch({ streaming: false })
}

function stopPolling(): void {
  round++
  clearTimeout(timer)
  stopStream()
}

/** Queries now, ending any delay. */
export function askNow(): void {
  stopPolling()
  void poll()
}

export function startLive(): void {
  onRefused(restarted => {
    // the gateway may have returned before the next round
    if (!restarted) return ended()
    streamBlockedUntil = 0
    renew().then(signedIn => (signedIn ? askNow() : ended()), failed)
  })
  let hiddenAt = 0
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) {
      hiddenAt = Date.now()
      return stopPolling()
    }
    if (Date.now() - hiddenAt > FORGET_MS) forget()
    if (session.value.state !== 'out') askNow()
  })
  addEventListener('online', () => {
    if (session.value.state !== 'out') askNow()
  })
  let { state, token } = session.value
  session.listen(() => {
    const next = session.value
    if (next.state === 'out' && state !== 'out') {
      stopPolling()
      live.patch({ dashboard: null, connection: 'opening' })
      history.clear()
    }
    if (next.state === 'in' && (state === 'out' || next.token !== token)) askNow()
    ;({ state, token } = next)
  })
  const begin = (): void => {
    const linked = takeToken()
    if (linked !== undefined) void signInByLink(linked).then(() => session.value.state === 'unknown' && askNow())
    else if (session.value.state !== 'out') void poll()
  }
  begin()
  // the link may be opened while the page is open already
  route.listen(() => {
    if (route.value.values.token !== undefined) begin()
  })
}
