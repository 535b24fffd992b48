// Opens a link in the browser of the user at this machine. Never a shell; a machine without a screen or a browser gives false.
import { spawn } from 'node:child_process'

/** Programs that open a link, in the order they are tried. */
function openers({ platform, env }: { platform: string; env: Record<string, string | undefined> }): string[] {
  if (platform === 'darwin') return ['open']
  if (platform === 'win32') return ['explorer.exe']
  // without a screen these would open a browser in the terminal, or wait forever
  if (!env.DISPLAY && !env.WAYLAND_DISPLAY && !env.BROWSER) return []
  return [...(env.BROWSER ? [env.BROWSER] : []), 'xdg-open', 'sensible-browser', 'x-www-browser']
}

/** True when a program accepted the link. */
export async function openUrl(url: string, machine: Parameters<typeof openers>[0] = process): Promise<boolean> {
  for (const program of openers(machine)) {
    const started = await new Promise<boolean>(resolve => {
      const child = spawn(program, [url], { detached: true, stdio: 'ignore' })
      child.once('error', () => resolve(false)) // not installed: the next one
      child.once('spawn', () => {
        child.unref()
        resolve(true)
      })
    })
    if (started) return true
  }
  return false
}
