// The part of polka 0.5 this room uses; the package has no types of its own.
declare module 'polka' {
  import type { IncomingMessage, Server, ServerResponse } from 'node:http'

  namespace polka {
    type Request = IncomingMessage & { path: string; params: Record<string, string>; search: string | null }
    type Handler = (req: Request, res: ServerResponse, next: (error?: unknown) => void) => void
    interface Options {
      server?: Server
      onError?: (error: unknown, req: Request, res: ServerResponse, next: () => void) => void
      onNoMatch?: (req: Request, res: ServerResponse) => void
    }
    interface Polka {
      add(method: string, pattern: string, ...handlers: Handler[]): Polka
      use(...handlers: Handler[]): Polka
      /** answers one request */
      handler(req: IncomingMessage, res: ServerResponse): void
    }
  }
  function polka(options?: polka.Options): polka.Polka
  export = polka
}
