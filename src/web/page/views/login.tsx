// Signing in: with the admin token of the first start, or with user name and password.
import { useEffect, useRef, useState } from 'preact/hooks'
import { fieldsOf } from '../lib/action'
import { asApiError } from '../lib/api'
import { useStore } from '../lib/observable'
import { session, signIn } from '../lib/session'
import { Choice } from '../ui/parts'

type Way = 'token' | 'user'

const WORDS: Record<number, string> = {
  0: 'The gateway is not reachable. Check the network and try again.',
  429: 'Too many attempts. Wait a few seconds and try again.',
}

const wrong = (way: Way): string =>
  way === 'token' ? 'This token is wrong. Check that it is complete, without spaces.' : 'User or password is wrong.'

export function Login() {
  const { reason } = useStore(session)
  const [way, setWay] = useState<Way>('token')
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState('')
  const first = useRef<HTMLInputElement>(null)
  // each way to sign in has its own first field
  useEffect(() => first.current?.focus(), [way])

  async function submit(event: SubmitEvent): Promise<void> {
    const text = fieldsOf(event)
    setBusy(true)
    setError('')
    try {
      await signIn(
        way === 'token'
          ? { token: text('token').trim() }
          : { username: text('username').trim(), password: text('password') },
      )
    } catch (thrown) {
      const { status, message } = asApiError(thrown)
      setError(status === 401 ? wrong(way) : (WORDS[status] ?? message))
      setBusy(false)
      first.current?.focus()
    }
  }

  return (
    <section class="card login" aria-label="Sign in">
      <h1>Sign in</h1>
      {reason !== '' && <p class="note">{reason}</p>}
      <Choice
        label="Sign-in method"
        value={way}
        choices={[
          ['token', 'Admin token'],
          ['user', 'User'],
        ]}
        onChoose={next => {
          setWay(next)
          setError('')
        }}
      />
      <form onSubmit={event => void submit(event)} key={way}>
        {way === 'token' ? (
          <>
            <input type="text" name="username" value="admin" autocomplete="username" hidden readOnly />
            <label for="token">Admin token</label>
            <input
              ref={first}
              id="token"
              name="token"
              type="password"
              autocomplete="current-password"
              autocapitalize="none"
              spellcheck={false}
              required
              aria-describedby="login-error login-help"
              aria-invalid={error !== ''}
            />
          </>
        ) : (
          <>
            <label for="username">User</label>
            <input
              ref={first}
              id="username"
              name="username"
              type="text"
              autocomplete="username"
              autocapitalize="none"
              spellcheck={false}
              required
              aria-describedby="login-error"
              aria-invalid={error !== ''}
            />
            <label for="password">Password</label>
            <input
              id="password"
              name="password"
              type="password"
              autocomplete="current-password"
              required
              aria-describedby="login-error"
              aria-invalid={error !== ''}
            />
          </>
        )}
        <p id="login-error" class="error" role="alert">
          {error}
        </p>
        <button type="submit" class="primary" disabled={busy}>
          {busy ? 'Signing in …' : 'Sign in'}
        </button>
      </form>
      <p class="quiet small" id="login-help">
        {way === 'token' ? (
          <>
            The token was printed once, at the first start. On the gateway, <code>os-node token --new</code> creates a
            new one.
          </>
        ) : (
          'An admin creates users in the Users view.'
        )}{' '}
        You stay signed in until this tab is closed.
      </p>
    </section>
  )
}
