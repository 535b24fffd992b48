// The page's files, inside the bundle: nothing is read from disk and no path of a request reaches a file system. Script
// and style stay compressed (Brotli, base64) until the first request for them. Each has an ETag, so a browser with the
// current version gets 304.
import { createHash } from 'node:crypto'
import { brotliDecompressSync } from 'node:zlib'
import script from 'page-script'
import style from 'page-style'
import html from './page/page.html'

export interface Asset {
  readonly type: string
  readonly body: string
  readonly etag: string
}

export const isAsset = (answer: object): answer is Asset => 'etag' in answer && 'body' in answer

const icon =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="8" fill="#0d7d74"/>' +
  '<path d="M5 18h5l3-9 5 15 4-10 2 4h3" fill="none" stroke="#fff" stroke-width="2.6" stroke-linecap="round" ' +
  'stroke-linejoin="round"/></svg>'

const etagOf = (text: string): string => `"${createHash('sha256').update(text).digest('base64url')}"`

const asset = (type: string, body: string): Asset => ({ type, body, etag: etagOf(body) })

function packedAsset(type: string, packed: string): Asset {
  let body: string | undefined
  return {
    type,
    etag: etagOf(packed),
    get body() {
      return (body ??= brotliDecompressSync(Buffer.from(packed, 'base64')).toString('utf8'))
    },
  }
}

/** The page of a gateway that requires a token: a browser without one shows the sign-in without a refused request. */
export const PAGE_WITH_SIGN_IN = asset('text/html; charset=utf-8', html.replace('<html', '<html data-sign-in'))

export const ASSETS = {
  '/': asset('text/html; charset=utf-8', html),
  '/app.js': packedAsset('text/javascript; charset=utf-8', script),
  '/app.css': packedAsset('text/css; charset=utf-8', style),
  '/favicon.svg': asset('image/svg+xml', icon),
  '/favicon.ico': asset('image/svg+xml', icon),
} as const satisfies Record<string, Asset>
