// The QUIC library: ngtcp2 with the TLS of Node's own OpenSSL (drivers/native/quic), a Node-API file of 0.4 MB that
// build.mjs puts next to the bundle. Errors: no file for this platform, a file that does not load here, a Node whose
// OpenSSL is older than 3.5: NO_DRIVER with the reason; the link is down and retries after minutes. The file is loaded
// on first use.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { asOsError, OsError } from '../../lib/errors'

export interface HostPort {
  host: string
  port: number
}

/** Certificates and transport settings; opaque to JavaScript. */
export type QuicConfig = { readonly config: unique symbol }

export interface ConnectionError {
  isApp: boolean
  errorCode: number
  reason: Uint8Array
}

/** One connection: a state machine without sockets and timers. Calls throw an Error with ngtcp2's name of the error. */
export interface QuicState {
  /** handles one UDP datagram, whose bytes it changes */
  recv(datagram: Uint8Array, from: HostPort): number
  /** writes the next UDP datagram to send: its length and destination; null: nothing to send */
  send(into: Uint8Array): [number, HostPort] | null
  streamRecv(id: number, into: Uint8Array): [number, boolean] | null
  /** number of bytes accepted; null: none now */
  streamSend(id: number, bytes: Uint8Array, fin: boolean): number | null
  readable(): Iterable<number>
  peerStreamsLeftBidi(): number
  dgramRecv(into: Uint8Array): number | null
  dgramSend(bytes: Uint8Array): void
  isDgramSendQueueFull(): boolean
  /** null: the peer accepts no datagrams */
  dgramMaxWritableLen(): number | null
  /** milliseconds to the next onTimeout, null for none */
  timeout(): number | null
  onTimeout(): void
  sendAckEliciting(): void
  close(reason: Uint8Array): void
  peerCertChain(): Uint8Array[] | null
  isEstablished(): boolean
  isDraining(): boolean
  isClosed(): boolean
  isTimedOut(): boolean
  peerError(): ConnectionError | null
  localError(): ConnectionError | null
}

export interface QuicLibrary {
  Config: {
    /**
     * PEM as bytes. `judgedElsewhere`: accepts any chain; the caller checks it. `protocols`: as in the TLS extension.
     * `numbers`: u32 each: idle timeout in ms, largest UDP payload, bytes in transit on the connection and on a stream,
     * streams of the peer, datagrams in a queue (0: none are accepted). `resetToken`: 16 bytes.
     */
    of(
      verifyPeer: boolean,
      judgedElsewhere: boolean,
      ca: Uint8Array | null,
      key: Uint8Array | null,
      cert: Uint8Array | null,
      protocols: Uint8Array,
      numbers: Uint8Array,
      resetToken: Uint8Array | null,
    ): QuicConfig
  }
  Connection: {
    connect(name: string | null, scid: Uint8Array, local: HostPort, remote: HostPort, config: QuicConfig): QuicState
    accept(scid: Uint8Array, odcid: Uint8Array | null, local: HostPort, remote: HostPort, config: QuicConfig): QuicState
  }
  Header: {
    /** throws for bytes that are not a QUIC header */
    fromSlice(
      datagram: Uint8Array,
      idLength: number,
    ): { ty: number; version: number; dcid: Uint8Array; scid: Uint8Array; token: Uint8Array }
  }
  versionIsSupported(version: number): boolean
  negotiateVersion(scid: Uint8Array, dcid: Uint8Array, into: Uint8Array): number
  /** Writes the answer that makes a client retry with `token`, to `newScid`; returns its length. */
  retry(
    scid: Uint8Array,
    dcid: Uint8Array,
    newScid: Uint8Array,
    token: Uint8Array,
    version: number,
    into: Uint8Array,
  ): number
}

/** Header.ty of the packet that opens a connection */
export const INITIAL = 0

const loaded = new Map<string, QuicLibrary | OsError>()

/** Throws NO_DRIVER `no QUIC build for <platform>-<arch>`. */
export function quicLibrary(platform: string = process.platform, arch: string = process.arch): QuicLibrary {
  const target = `${platform}-${arch}`
  const known = loaded.get(target) ?? load(target)
  loaded.set(target, known)
  if (known instanceof OsError) throw known
  return known
}

function load(target: string): QuicLibrary | OsError {
  // next to the bundle, or below the root that tests set
  const root = process.env.OS_NODE_TEST_ROOT
  const path = join(root ? join(root, 'dist') : __dirname, 'native', target, 'quic.node')
  if (!existsSync(path)) return noBuild(target, 'use UDP, TCP or MQTT on this machine')
  const module = { exports: {} }
  try {
    process.dlopen(module, path)
  } catch (cause) {
    const { message } = asOsError(cause)
    if (message.includes('SSL_set_quic'))
      return new OsError('NO_DRIVER', 'QUIC needs Node 22 or 24', {
        hint: `${process.version} has no TLS for it`,
        cause,
      })
    return noBuild(target, `${path} does not load: ${message}`, cause)
  }
  return module.exports as QuicLibrary
}

const noBuild = (target: string, hint: string, cause?: unknown): OsError =>
  new OsError('NO_DRIVER', `no QUIC build for ${target}`, { hint, cause })
