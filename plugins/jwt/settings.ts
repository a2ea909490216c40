/** Which keys a node verifies with, out of its section: one kind, and algorithms that go with it. Pure. */
import type { Secret } from 'svcdb'
import { type Algorithm, ASYMMETRIC, type HmacAlgorithm, hashBytes, isHmac } from './algorithms.ts'
import type { JwtConfig } from './config.ts'

/** What can be guessed from one token by trying. */
const MIN_SECRET_BYTES = 16
const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/

export type KeySource =
  | { kind: 'secret'; secret: Secret; algorithm: HmacAlgorithm }
  /** The file alone, or before a key set. */
  | { kind: 'public'; pemFile?: string; keySet?: KeySetSource }

/** A key set by its URL, or where discovery tells the URL. */
export type KeySetSource = { jwksUrl: URL } | { issuer: string; discoveryUrl: URL }

export interface Settings {
  keys: KeySource
  algorithms: ReadonlySet<Algorithm>
  /** What an operator should be told at start. */
  warnings: string[]
}

/** @throws Error naming the keys that do not go together. */
export function settingsOf(config: JwtConfig): Settings {
  const { secret, public_key_pem_file: pemFile, jwks_url: jwksUrl, issuer } = config
  const algorithm = config.algorithm ?? (jwksUrl === undefined && (pemFile !== undefined || issuer === undefined || secret !== undefined) ? 'HS256' : undefined)
  const warnings: string[] = []
  if (secret !== undefined) {
    const other = pemFile !== undefined ? 'public_key_pem_file' : jwksUrl !== undefined ? 'jwks_url' : undefined
    if (other !== undefined)
      throw new Error(
        `cannot use "auth.jwt.secret" together with "auth.jwt.${other}": tokens are signed either with a secret or with the key of an issuer; remove one of them; SVC_JWT_SECRET in the environment sets the secret`,
      )
    if (algorithm === undefined || !isHmac(algorithm))
      throw new Error(
        `cannot use "auth.jwt.algorithm" "${algorithm}" with "auth.jwt.secret": a secret goes with HS256, HS384 or HS512; set one of these, or give public_key_pem_file or jwks_url instead`,
      )
    warnings.push(...checkSecret(secret, algorithm))
    return { keys: { kind: 'secret', secret, algorithm }, algorithms: new Set([algorithm]), warnings }
  }
  const given = pemFile !== undefined ? 'public_key_pem_file' : jwksUrl !== undefined ? 'jwks_url' : issuer !== undefined ? 'issuer' : undefined
  if (given === undefined)
    throw new Error(
      'cannot verify tokens: [auth.jwt] has no key; set one of "auth.jwt.secret", "auth.jwt.public_key_pem_file" and "auth.jwt.jwks_url", or "auth.jwt.issuer" for discovery',
    )
  if (algorithm !== undefined && isHmac(algorithm))
    throw new Error(
      `cannot use "auth.jwt.algorithm" "${algorithm}" with "auth.jwt.${given}": the algorithm is of secrets, and these are public keys; set the algorithm that the issuer signs with, such as RS256, or give "auth.jwt.secret" instead`,
    )
  const keySet = keySetSource(jwksUrl, pemFile === undefined ? issuer : undefined, warnings)
  if (config.audience === undefined && keySet !== undefined)
    warnings.push('auth.jwt.audience is not set: tokens that the issuer made for other services are accepted; set the audience')
  const keys: KeySource = { kind: 'public', ...(pemFile !== undefined && { pemFile }), ...(keySet !== undefined && { keySet }) }
  return { keys, algorithms: new Set(algorithm === undefined ? ASYMMETRIC : [algorithm]), warnings }
}

function checkSecret(secret: Secret, algorithm: HmacAlgorithm): string[] {
  const bytes = Buffer.byteLength(secret.reveal())
  const hint = '"openssl rand -base64 64" makes one'
  if (bytes < MIN_SECRET_BYTES) throw new Error(`cannot use "auth.jwt.secret": a secret of less than ${MIN_SECRET_BYTES} bytes can be guessed; ${hint}`)
  if (bytes >= hashBytes(algorithm)) return []
  return [`the secret of tokens has fewer bytes than ${algorithm} should have, which are ${hashBytes(algorithm)}; ${hint}`]
}

function keySetSource(jwksUrl: string | undefined, issuer: string | undefined, warnings: string[]): KeySetSource | undefined {
  if (jwksUrl !== undefined) return { jwksUrl: checkedUrl('jwks_url', jwksUrl, warnings) }
  if (issuer === undefined) return undefined
  const url = checkedUrl('issuer', issuer, warnings)
  if (url.search !== '' || url.hash !== '')
    throw new Error(`cannot discover the keys of "auth.jwt.issuer" "${issuer}": an issuer has no query and no fragment; give jwks_url instead`)
  // The issuer is a text that tokens repeat; only one slash at its end is left out of the URL (OpenID Connect Discovery, 4).
  return { issuer, discoveryUrl: new URL(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`) }
}

function checkedUrl(key: string, text: string, warnings: string[]): URL {
  const url = URL.parse(text)
  if (url === null || !/^https?:$/.test(url.protocol)) throw new Error(`cannot use "auth.jwt.${key}" "${text}": it is no http or https URL; correct it`)
  if (url.username !== '' || url.password !== '')
    throw new Error(`cannot use "auth.jwt.${key}": it contains a user name or password, and keys are fetched without; remove them`)
  if (url.protocol === 'http:' && !LOOPBACK.test(url.hostname))
    warnings.push(`auth.jwt.${key} is fetched in plain text: who can change what the network carries can sign tokens; use https`)
  return url
}
