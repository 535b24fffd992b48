// The page: the view of each address, and the sign-in. A view that fails shows its error and does not affect the
// others.
import './style/base.css'
import './style/shell.css'
import './style/parts.css'
import './style/forms.css'
import './style/views.css'
import './style/tools.css'
import 'uplot/dist/uPlot.min.css'
import { Component, type ComponentChildren, type ComponentType, render } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { unsay } from './lib/action-message'
import { keepFocus } from './lib/focus'
import { live, startLive } from './lib/live'
import { useStore } from './lib/observable'
import { route } from './lib/route'
import { session } from './lib/session'
import { SafeMode } from './ui/safemode'
import { type NavItem, PageShell } from './ui/shell'
import { Console } from './views/console'
import { Devices } from './views/devices'
import { Log } from './views/log'
import { Login } from './views/login'
import { Overview } from './views/overview'
import { Packets } from './views/packets'
import { Readings } from './views/readings'
import { Sections } from './views/sections'
import { Settings } from './views/settings'
import { Switches } from './views/switches'
import { Users } from './views/users'

interface View extends NavItem {
  readonly view: ComponentType
}

const VIEWS: readonly View[] = [
  { name: 'overview', title: 'Overview', view: Overview },
  { name: 'readings', title: 'Readings', view: Readings },
  { name: 'devices', title: 'Devices', view: Devices },
  { name: 'packets', title: 'Packets', view: Packets },
  { name: 'switches', title: 'Switches', view: Switches },
  { name: 'settings', title: 'Settings', view: Settings },
  { name: 'console', title: 'Console', view: Console },
  { name: 'users', title: 'Users', view: Users },
  { name: 'log', title: 'Log', view: Log },
  { name: 'sections', title: 'Sections', view: Sections },
]

class Fence extends Component<{ children: ComponentChildren }, { error?: Error }> {
  override state: { error?: Error } = {}

  override componentDidCatch(error: Error): void {
    console.error(error)
    this.setState({ error })
  }

  render() {
    const { error } = this.state
    if (!error) return this.props.children
    return (
      <div class="card" role="alert">
        <h2>This view failed</h2>
        <p class="quiet">{error.message}</p>
        <button type="button" class="plain" onClick={() => this.setState({ error: undefined })}>
          Try again
        </button>
      </div>
    )
  }
}

function Page() {
  const { path } = useStore(route)
  const { state } = useStore(session)
  const { dashboard, connection } = useStore(live)
  const place = VIEWS.find(({ name }) => name === path[0]) ?? VIEWS[0]!
  const heading = useRef<HTMLHeadingElement>(null)
  const first = useRef(true)
  const name = dashboard?.status.identity.device_id
  const alarms = dashboard?.status.attention?.length ?? 0

  useEffect(() => {
    const view = state === 'out' ? 'Sign in' : connection === 'away' ? `Offline: ${place.title}` : place.title
    document.title = (alarms > 0 ? `(${alarms}) ` : '') + [view, name, 'os-node'].filter(Boolean).join(' · ')
  }, [place, name, state, connection, alarms])

  // after a change of view the focus is on its heading, as after loading a page
  const at = path.join('/')
  useEffect(() => {
    if (!first.current) {
      heading.current?.focus({ preventScroll: true })
      scrollTo(0, 0)
      unsay()
    }
    first.current = false
  }, [at])

  return (
    <PageShell places={VIEWS} here={place.name}>
      {state === 'out' ? (
        <Login />
      ) : (
        <>
          <h1 ref={heading} tabIndex={-1}>
            {place.title}
          </h1>
          <SafeMode />
          <Fence key={place.name}>
            <place.view />
          </Fence>
        </>
      )}
    </PageShell>
  )
}

const root = document.getElementById('app')!
root.textContent = ''
render(<Page />, root)
keepFocus()
startLive()
