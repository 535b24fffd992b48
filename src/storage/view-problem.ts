// What CLI, doctor and page say of a view that does not work. Pure; nothing fails.

/** Why the view does not work now, or starts again; undefined while it works, rests, is off or starts for the first time. */
export function viewProblem(view: {
  state?: string
  reason?: string
  last_error?: { readonly message: string }
}): string | undefined {
  if (view.state === 'down') return view.reason ?? 'unknown reason'
  return view.state === 'starting' ? view.last_error?.message : undefined
}
