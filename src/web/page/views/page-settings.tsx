// Appearance of the page: the colours of this browser, and the gateway's suggestion for every browser.
import { fieldsOf, useAction } from '../lib/action'
import { call } from '../lib/api'
import { ui } from '../lib/live'
import { useStore } from '../lib/observable'
import { may } from '../lib/session'
import { chooseTheme, theme } from '../lib/theme'
import type { UiConfig } from '../lib/types'
import { Card, Choice, Entry } from '../ui/parts'

function Shared() {
  const { ui_refresh_seconds = 5, ui_compact = false, ui_layout = 'cards' } = useStore(ui)
  const { busy, act } = useAction()
  function save(event: SubmitEvent): void {
    const text = fieldsOf(event)
    const body = {
      ui_refresh_seconds: Number(text('refresh')),
      ui_compact: text('compact') === 'on',
      ui_layout: text('layout'),
    }
    void act('Not saved', async () => {
      ui.set((await call<{ ui: UiConfig }>('PUT', '/api/ui/config', { body })).ui)
      return 'Page settings saved'
    })
  }
  return (
    <form class="form" onSubmit={save} key={`${ui_refresh_seconds} ${ui_compact} ${ui_layout}`}>
      <Entry
        label="Refresh interval (s)"
        id="look-refresh"
        name="refresh"
        type="number"
        min={1}
        max={3600}
        step={1}
        required
        defaultValue={String(ui_refresh_seconds)}
        disabled={!may('admin')}
      />
      <div>
        <label for="look-layout">Readings layout</label>
        <select id="look-layout" name="layout" disabled={!may('admin')}>
          {['cards', 'list'].map(layout => (
            <option key={layout} selected={layout === ui_layout}>
              {layout}
            </option>
          ))}
        </select>
      </div>
      <div class="check">
        <input id="look-compact" name="compact" type="checkbox" defaultChecked={ui_compact} disabled={!may('admin')} />
        <label for="look-compact">Compact</label>
      </div>
      <div class="buttons">
        <button type="submit" class="primary" disabled={busy || !may('admin')}>
          Save for all users
        </button>
      </div>
    </form>
  )
}

export function PageSettings() {
  const now = useStore(theme)
  return (
    <Card title="This page">
      <div class="fieldset gap">
        <span class="label" aria-hidden="true">
          Theme of this browser
        </span>
        <div>
          <Choice
            label="Theme of this browser"
            value={now}
            choices={[
              ['auto', 'Match system'],
              ['light', 'Light'],
              ['dark', 'Dark'],
            ]}
            onChoose={chooseTheme}
          />
        </div>
      </div>
      <Shared />
    </Card>
  )
}
