// Users of the page and of the HTTP interface: their names and roles; creating, changing and removing them.
import { useEffect, useRef, useState } from 'preact/hooks'
import { fieldsOf, useAction } from '../lib/action'
import { say } from '../lib/action-message'
import { asApiError, call } from '../lib/api'
import { useResource } from '../lib/resource'
import { may } from '../lib/session'
import type { Role, User } from '../lib/types'
import { Button, Card, Confirm, Entry, Items, Switch } from '../ui/parts'
import { WriteNote } from '../ui/writenote'

const ROLES: readonly (readonly [Role, string])[] = [
  ['viewer', 'viewer: reads'],
  ['operator', 'operator: reads and switches'],
  ['admin', 'admin: everything'],
]

const RoleSelect = ({
  id,
  label,
  value,
  disabled,
  onChange,
}: {
  id: string
  label?: string
  value?: Role
  disabled?: boolean
  onChange?(role: Role): void
}) => (
  <select
    id={id}
    name="role"
    aria-label={label}
    value={value}
    disabled={disabled}
    onChange={event => onChange?.(event.currentTarget.value as Role)}
  >
    {ROLES.map(([role, text]) => (
      <option key={role} value={role}>
        {text}
      </option>
    ))}
  </select>
)

function NewUser({ reload }: { reload(): void }) {
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState('')
  async function add(event: SubmitEvent): Promise<void> {
    const form = event.currentTarget as HTMLFormElement
    const text = fieldsOf(event)
    const password = text('password')
    setBusy(true)
    setError('')
    try {
      const username = text('username').trim()
      await call('POST', '/users', { body: { username, role: text('role'), ...(password && { password }) } })
      say(`${username} was added`)
      form.reset()
      reload()
    } catch (thrown) {
      setError(asApiError(thrown).message)
    }
    setBusy(false)
  }
  return (
    <Card title="Add a user">
      <form class="form" onSubmit={event => void add(event)}>
        <Entry
          label="Name"
          id="new-username"
          name="username"
          required
          autocomplete="off"
          autocapitalize="none"
          spellcheck={false}
          aria-describedby="new-user-error"
        />
        <Entry
          label="Password"
          id="new-password"
          name="password"
          type="password"
          autocomplete="new-password"
          aria-describedby="new-user-help"
        />
        <div>
          <label for="new-role">Role</label>
          <RoleSelect id="new-role" />
        </div>
        <div class="buttons">
          <button type="submit" class="primary" disabled={busy}>
            Add
          </button>
        </div>
      </form>
      <p class="error" id="new-user-error" role="alert">
        {error}
      </p>
      <p class="quiet small gap-above" id="new-user-help">
        A user without a password cannot sign in until one is set.
      </p>
    </Card>
  )
}

function Password({ username, onDone }: { username: string; onDone(password: string | null): void }) {
  const id = `password-${username}`
  const input = useRef<HTMLInputElement>(null)
  useEffect(() => input.current?.focus(), [])
  return (
    <form class="line gap-above" onSubmit={event => onDone(fieldsOf(event)('password'))}>
      <input type="text" name="username" value={username} autocomplete="username" hidden readOnly />
      <label class="hidden" for={id}>
        New password of {username}
      </label>
      <input
        ref={input}
        id={id}
        name="password"
        type="password"
        required
        autocomplete="new-password"
        placeholder="new password"
      />
      <button type="submit" class="primary">
        Set
      </button>
      <Button onClick={() => onDone(null)}>Cancel</Button>
    </form>
  )
}

function UserRow({ user, reload }: { user: User; reload(): void }) {
  const { username, role, enabled, created_at } = user
  const { busy, act } = useAction(reload)
  const [changing, setChanging] = useState<'' | 'password' | 'remove'>('')
  const path = `/users/${encodeURIComponent(username)}`
  const locked = busy || !may('admin')

  const change = (body: object, done: string): Promise<void> =>
    act(username, async () => {
      await call('PUT', path, { body })
      return done
    })
  const remove = async (): Promise<string> => {
    await call('DELETE', path)
    return `${username} was removed`
  }

  return (
    <li>
      <div class="row wrap">
        <div>
          <h3>{username}</h3>
          <p class="counts">
            {created_at ? `since ${new Date(created_at * 1000).toLocaleDateString()}` : ''}
            {!enabled && ' · cannot sign in'}
          </p>
        </div>
        <div class="buttons">
          <RoleSelect
            id={`role-${username}`}
            label={`Role of ${username}`}
            value={role}
            disabled={locked}
            onChange={next => void change({ role: next }, `${username} is ${next} now`)}
          />
          <span class="labelled">
            <span class="quiet small" aria-hidden="true">
              may sign in
            </span>
            <Switch
              label={`${username} may sign in`}
              on={enabled}
              disabled={locked}
              onChange={on => void change({ enabled: on }, `${username} may ${on ? '' : 'not '}sign in now`)}
            />
          </span>
          <Button disabled={locked} onClick={() => setChanging('password')}>
            Password<span class="hidden"> of {username}</span>
          </Button>
          <Button disabled={locked} onClick={() => setChanging('remove')}>
            Remove<span class="hidden"> {username}</span>
          </Button>
        </div>
      </div>
      {changing === 'password' && (
        <Password
          username={username}
          onDone={password => {
            setChanging('')
            if (password !== null) void change({ password }, `${username} has a new password`)
          }}
        />
      )}
      {changing === 'remove' && (
        <Confirm
          title={`Remove ${username}?`}
          action="Remove"
          onYes={() => void act(username, remove)}
          onClose={() => setChanging('')}
        >
          <p>Open sessions of this user end immediately.</p>
        </Confirm>
      )}
    </li>
  )
}

export function Users() {
  const list = useResource<{ users: readonly User[] }>('/users')
  return (
    <div class="stack">
      <WriteNote needs="admin" what="changing users" />
      <Card title="Users">
        <Items from={list} what="users" of={({ users }) => users} empty="No users yet. Sign in with the admin token.">
          {user => <UserRow key={user.username} user={user} reload={list.reload} />}
        </Items>
      </Card>
      {may('admin') && <NewUser reload={list.reload} />}
    </div>
  )
}
