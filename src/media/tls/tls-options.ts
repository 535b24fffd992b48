// The key `tls` of a link, as in Config.json.
import { boolean, type InferOutput, minLength, pipe, strictObject, string, union } from 'valibot'
import { choice, flag, maybe } from '../../config/fields'

const path = (help: string) => maybe(pipe(string(), minLength(1)), help)

/**
 * `tls: true`, or what differs from the defaults; all files are PEM. A misspelt key is an error here, since a `ca` that is
 * not seen would mean another trust than was meant.
 */
export const tlsSchema = union([
  boolean(),
  strictObject({
    ca: path('file of the authorities trusted, instead of those of the web'),
    cert: path('file of the own certificate and of those between it and its authority: needed to listen'),
    key: path('file of the private key of that certificate'),
    servername: path("name the peer's certificate must have, where it is not the host connected to"),
    insecure: flag(false, 'take any certificate: encrypted, but to whom is unknown'),
    min_version: choice(['TLSv1.2', 'TLSv1.3'], 'TLSv1.2', 'oldest version spoken'),
    client_ca: path('listening: clients must show a certificate of one of the authorities in this file'),
  }),
])

export const tlsOption = (help: string) => maybe(tlsSchema, help)

export type TlsValue = InferOutput<typeof tlsSchema>
export type TlsSettings = Exclude<TlsValue, boolean>
