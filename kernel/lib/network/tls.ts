/** TLS from files, read again when they change, so that a renewed certificate needs no restart. Established connections keep theirs. */
import { constants, createPrivateKey, X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { createSecureContext, type SecureContextOptions, type Server, type TLSSocket } from 'node:tls'
import { SvcError } from '../errors/index.ts'
import { authoritiesOf } from './client-authorities.ts'

/** Files and rules of a secure listener, by the names of the [tls] section. */
export interface TlsSettings {
  /** Files, PEM. */
  cert: string
  key: string
  /** Certificates of the authorities whose clients are known; absent = no client is asked for one. */
  client_ca?: string | undefined
  client_auth: 'required' | 'optional'
  /** As OpenSSL lists them. */
  ciphers: string
  min_version: '1.2' | '1.3'
  /** Seconds; 0 = the files are read once. */
  reload_interval_secs: number
}

/** What a client showed in the TLS handshake. */
export interface ClientCertificate {
  der: Uint8Array
  /** Why it does not count: expired, of an unknown authority ... Absent = it was verified. */
  error?: string
}

/** Where a reload, or why there is none, is written. */
export interface TlsLog {
  info(fields: object, message: string): void
}

/** @throws TLS_ERROR naming the file. */
export async function readTls(config: TlsSettings): Promise<SecureContextOptions> {
  const read = async (key: 'cert' | 'key' | 'client_ca'): Promise<Buffer> => {
    const file = config[key] as string
    try {
      return await readFile(file)
    } catch (error) {
      throw new SvcError('TLS_ERROR', `cannot read tls.${key} "${file}": ${(error as Error).message}`, { cause: error })
    }
  }
  // One after the other: of several that are missing the first is named.
  const cert = await read('cert')
  const key = await read('key')
  const ca = config.client_ca === undefined ? undefined : await read('client_ca')
  // In a second handshake of TLS 1.2 a client may show another certificate, and node leaves `authorized` as the first one had it.
  const secureOptions = constants.SSL_OP_NO_RENEGOTIATION
  const options = { cert, key, secureOptions, ciphers: config.ciphers, minVersion: `TLSv${config.min_version}` } as const
  checkCiphers(config)
  checkPair(config, cert, key)
  if (ca === undefined) return options
  authoritiesOf(ca, config.client_ca as string)
  return { ...options, ca }
}

/** OpenSSL says which of its routines failed, and not which file is at fault. */
function checkPair(config: TlsSettings, cert: Buffer, key: Buffer): void {
  try {
    createSecureContext({ cert, key })
    return
  } catch (error) {
    const refuse = (name: 'cert' | 'key', why: string, cause: unknown) =>
      new SvcError('TLS_ERROR', `cannot use tls.${name} "${config[name]}": ${why}`, { cause })
    const tried = <T>(name: 'cert' | 'key', hint: string, read: () => T): T => {
      try {
        return read()
      } catch (cause) {
        throw refuse(name, `${(cause as Error).message}; ${hint}`, cause)
      }
    }
    const certificate = tried(
      'cert',
      'it is to hold the certificate of the server and those between it and its authority, PEM',
      () => new X509Certificate(cert),
    )
    const hint = 'it is to hold the private key of the certificate, PEM, without a passphrase'
    const own = tried('key', hint, () => createPrivateKey(key))
    if (!certificate.checkPrivateKey(own)) throw refuse('key', `it is not the key of tls.cert "${config.cert}"; name the two that belong together`, error)
    throw refuse('cert', (error as Error).message, error)
  }
}

function checkCiphers({ ciphers, min_version }: TlsSettings): void {
  const refuse = (why: string, cause?: unknown) => new SvcError('TLS_ERROR', `cannot use tls.ciphers "${ciphers}": ${why}`, { cause })
  try {
    createSecureContext({ ciphers })
  } catch (error) {
    throw refuse((error as Error).message, error)
  }
  // Without a suite of TLS 1.3 in the list that version is not spoken.
  if (min_version === '1.3' && !ciphers.includes('TLS_'))
    throw refuse('it names no suite of TLS 1.3, which tls.min_version asks for; add TLS_AES_256_GCM_SHA384')
}

/** Options for a listener: with client_ca clients must, or with client_auth "optional" may, show a certificate signed by it. */
export async function tlsOptions(config: TlsSettings): Promise<SecureContextOptions & { requestCert: boolean; rejectUnauthorized: boolean }> {
  const mutual = config.client_ca !== undefined
  const required = mutual && config.client_auth === 'required'
  return { ...(await readTls(config)), requestCert: mutual, rejectUnauthorized: required }
}

/** By connection; undefined for one whose client showed nothing. */
const certificates = new WeakMap<object, ClientCertificate | undefined>()

/** What the client showed on a connection, if it is secure and it showed anything: the same object each time. */
export function clientCertificate(socket: object): ClientCertificate | undefined {
  if (certificates.has(socket)) return certificates.get(socket)
  const certificate = shownOn(socket as Partial<TLSSocket>)
  certificates.set(socket, certificate)
  return certificate
}

function shownOn(socket: Partial<TLSSocket>): ClientCertificate | undefined {
  // Not getPeerCertificate: it takes apart what any stranger sends, whether it holds or not.
  const der = socket.getPeerX509Certificate?.()?.raw
  if (der === undefined) return undefined
  return socket.authorized ? { der } : { der, error: String(socket.authorizationError ?? 'it was not verified') }
}

/**
 * What looks at the files, for a schedule, and has the server use them when they have changed. A set that does not load is a failure, the same each time,
 * until there is another; the old one stays.
 * @param taken called with what has been taken up.
 */
export function tlsReload(
  server: Server,
  config: TlsSettings,
  current: SecureContextOptions,
  log: TlsLog,
  taken?: (options: SecureContextOptions) => void,
): () => Promise<void> {
  let fingerprint = fingerprintOf(current)
  let refused: { fingerprint: string; error: unknown } | undefined
  return async () => {
    try {
      const next = await readTls(config)
      const seen = fingerprintOf(next)
      if (seen === refused?.fingerprint) throw refused.error
      refused = undefined
      if (seen === fingerprint) return
      try {
        server.setSecureContext(next)
      } catch (error) {
        refused = { fingerprint: seen, error }
        throw error
      }
      fingerprint = seen
      taken?.(next)
      log.info({ cert: config.cert }, 'TLS certificate reloaded')
    } catch (error) {
      throw new Error(`cannot reload the TLS certificate, the old one stays in use: ${(error as Error).message}`, { cause: error })
    }
  }
}

function fingerprintOf(options: SecureContextOptions): string {
  return [options.cert, options.key, options.ca].map((part) => (part === undefined ? '' : (part as Buffer).toString('base64'))).join('|')
}
