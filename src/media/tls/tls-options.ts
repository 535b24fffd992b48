// The key `tls` of a link, as in Config.json.
import { boolean, type InferOutput, minLength, pipe, strictObject, string, union } from 'valibot'
import { choice, flag, maybe } from '../../config/fields'

const path = (help: string) => maybe(pipe(string(), minLength(1)), help)

/**
 * `tls: true`, or the differences from the defaults; all files are PEM. An unknown key is an error, because a misspelt
 * `ca` would silently change which peers are trusted.
 */
export const tlsSchema = union([
  boolean(),
  strictObject({
    ca: path('file of the trusted authorities, instead of the public ones'),
    cert: path("file of this machine's certificate and the intermediates; required to listen"),
    key: path('file of the private key of that certificate'),
    servername: path("name in the peer's certificate, if it is not the host connected to"),
    insecure: flag(false, 'accept any certificate: the peer is not verified'),
    min_version: choice(['TLSv1.2', 'TLSv1.3'], 'TLSv1.2', 'lowest TLS version'),
    client_ca: path('listening: clients must show a certificate of one of the authorities in this file'),
  }),
])

export const tlsOption = (help: string) => maybe(tlsSchema, help)

export type TlsValue = InferOutput<typeof tlsSchema>
export type TlsSettings = Exclude<TlsValue, boolean>
