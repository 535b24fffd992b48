// Why nothing can be changed here: shown before a user tries.
import { live } from '../lib/live'
import { useStore } from '../lib/observable'
import { may, session } from '../lib/session'
import type { Role } from '../lib/types'

export function WriteNote({ needs, what }: { needs: Role; what: string }) {
  const service = useStore(live).dashboard?.service
  const { username, role: own, known } = useStore(session)
  if (service?.management_enabled === false)
    return <p class="card note">Nothing can be changed over HTTP: the management interface is off.</p>
  if (service?.read_only)
    return <p class="card note">Nothing can be changed over HTTP: read-only mode is active (web_user.read_only).</p>
  if (!known || may(needs)) return null
  return (
    <p class="card note">
      {username || 'This session'} has the role {own}; {what} needs the role {needs}.
    </p>
  )
}
