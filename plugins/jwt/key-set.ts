/** Keys that verify signatures: a secret, one out of a file, a set of an issuer's. Only public keys of signatures are taken from a set. */
import { createHash, createPublicKey, type JsonWebKeyInput, type KeyObject, type webcrypto } from 'node:crypto'
import { type Algorithm, algorithmOf, algorithmsFor } from './algorithms.ts'

/** Real sets have a handful; a token without the name of a key is tried with all. */
const MAX_KEYS = 100
const MAX_LABEL_LENGTH = 64

export interface VerificationKey {
  kid?: string
  /** What tells keys of a set apart. */
  print?: string
  key: KeyObject | webcrypto.CryptoKey
  algorithms: ReadonlySet<Algorithm>
}

export class KeySet {
  readonly keys: readonly VerificationKey[]
  /** By their prints, how they are called. */
  readonly prints: ReadonlyMap<string, string>
  private readonly byId = new Map<string, VerificationKey[]>()

  constructor(keys: readonly (VerificationKey & { print: string })[]) {
    this.keys = keys
    this.prints = new Map(keys.map(({ print, kid }) => [print, (kid ?? print).slice(0, MAX_LABEL_LENGTH)]))
    for (const key of keys) {
      if (key.kid === undefined) continue
      const same = this.byId.get(key.kid)
      if (same === undefined) this.byId.set(key.kid, [key])
      else same.push(key)
    }
  }

  /** The keys of a name; undefined for a name that the set does not have. */
  named(kid: string | undefined): readonly VerificationKey[] | undefined {
    return kid === undefined ? undefined : this.byId.get(kid)
  }
}

/** @param document a JSON Web Key Set (RFC 7517). @throws Error for what is none, and for a set without a key that can verify. */
export function parseKeySet(document: unknown): KeySet {
  const given = (document as { keys?: unknown } | null)?.keys
  if (!Array.isArray(given)) throw new Error('the answer is no key set: it has no list "keys"')
  if (given.length > MAX_KEYS) throw new Error(`the key set has ${given.length} keys, and ${MAX_KEYS} are the limit`)
  const keys = given.flatMap((jwk) => keyOf(jwk) ?? [])
  if (keys.length === 0) throw new Error(`the key set is empty: none of its ${given.length} keys is a public key that verifies signatures`)
  return new KeySet(keys)
}

/** Undefined for keys of other uses, of secrets, and of algorithms that are not taken. */
function keyOf(jwk: unknown): (VerificationKey & { print: string }) | undefined {
  if (typeof jwk !== 'object' || jwk === null) return undefined
  const { kty, use, key_ops: operations, alg, kid, d, k } = jwk as Record<string, unknown>
  if ((kty !== 'RSA' && kty !== 'EC' && kty !== 'OKP') || d !== undefined || k !== undefined) return undefined
  if (use !== undefined && use !== 'sig') return undefined
  if (operations !== undefined && !(Array.isArray(operations) && operations.includes('verify'))) return undefined
  let key: KeyObject
  try {
    key = createPublicKey({ key: jwk as JsonWebKeyInput['key'], format: 'jwk' })
  } catch {
    return undefined
  }
  const algorithms = algorithmsFor(key).filter((algorithm) => alg === undefined || algorithm === algorithmOf(alg))
  if (algorithms.length === 0) return undefined
  const named = typeof kid === 'string' ? kid : undefined
  const print = createHash('sha256')
    .update(key.export({ type: 'spki', format: 'der' }))
    .update(JSON.stringify([named, algorithms]))
    .digest('base64url')
  return { ...(named !== undefined && { kid: named }), key, algorithms: new Set(algorithms), print }
}
