/** The signature algorithms of tokens, and which keys they go with. Pure. */
import type { KeyObject } from 'node:crypto'

/** Of HMAC, with the bytes that a secret should have at least (RFC 7518, 3.2). */
const HASH_BYTES = { HS256: 32, HS384: 48, HS512: 64 } as const
const RSA = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'] as const

export const ALGORITHMS = ['HS256', 'HS384', 'HS512', ...RSA, 'ES256', 'ES384', 'EdDSA'] as const
export type Algorithm = (typeof ALGORITHMS)[number]
export type HmacAlgorithm = keyof typeof HASH_BYTES

const KNOWN: ReadonlySet<string> = new Set(ALGORITHMS)
/** OpenSSL's names of curves. */
const CURVES: Record<string, Algorithm> = { prime256v1: 'ES256', secp384r1: 'ES384' }
const MIN_RSA_BITS = 2048

export function isHmac(algorithm: Algorithm): algorithm is HmacAlgorithm {
  return algorithm in HASH_BYTES
}

export function hashBytes(algorithm: HmacAlgorithm): number {
  return HASH_BYTES[algorithm]
}

export const ASYMMETRIC: readonly Algorithm[] = ALGORITHMS.filter((algorithm) => !isHmac(algorithm))

/** The algorithm that a header or a key names; `Ed25519` (RFC 9864) is what EdDSA is here. */
export function algorithmOf(name: unknown): Algorithm | undefined {
  if (name === 'Ed25519') return 'EdDSA'
  return typeof name === 'string' && KNOWN.has(name) ? (name as Algorithm) : undefined
}

/** What a public key may verify; none for keys of other kinds and for RSA below 2048 bits. */
export function algorithmsFor({ asymmetricKeyType, asymmetricKeyDetails }: KeyObject): readonly Algorithm[] {
  switch (asymmetricKeyType) {
    case 'rsa':
      return (asymmetricKeyDetails?.modulusLength ?? 0) < MIN_RSA_BITS ? [] : RSA
    case 'ec':
      return [CURVES[asymmetricKeyDetails?.namedCurve ?? '']].filter((algorithm) => algorithm !== undefined)
    case 'ed25519':
      return ['EdDSA']
    default:
      return []
  }
}
