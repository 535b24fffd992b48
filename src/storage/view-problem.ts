// The text that CLI, doctor and page show for a view that does not work. Pure; cannot fail.

/** Why the view does not work now, or restarts; undefined while it works, is idle, is off or starts for the first time. */
export function viewProblem(view: {
  state?: string
  reason?: string
  last_error?: { readonly message: string }
}): string | undefined {
  if (view.state === 'down') return view.reason ?? 'unknown reason'
  return view.state === 'starting' ? view.last_error?.message : undefined
}
