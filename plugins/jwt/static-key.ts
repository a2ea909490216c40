/** The one key that the config gives: a secret, or the public key of a file. */
import { createPublicKey, type KeyObject, webcrypto } from 'node:crypto'
import type { Secret } from 'svcdb'
import { readBounded } from 'svcdb/lib/files'
import { type Algorithm, algorithmsFor, type HmacAlgorithm } from './algorithms.ts'
import type { VerificationKey } from './key-set.ts'

const MAX_PEM_BYTES = 65_536

export async function secretKey(secret: Secret, algorithm: HmacAlgorithm): Promise<VerificationKey> {
  const hash = `SHA-${algorithm.slice(2)}`
  const key = await webcrypto.subtle.importKey('raw', Buffer.from(secret.reveal()), { name: 'HMAC', hash }, false, ['verify'])
  return { key, algorithms: new Set([algorithm]) }
}

/** @param allowed the key takes those of them that go with it. @throws Error naming the file. */
export async function publicKey(file: string, allowed: ReadonlySet<Algorithm>): Promise<VerificationKey> {
  const fail = (cause: string): Error => new Error(`cannot use auth.jwt.public_key_pem_file "${file}": ${cause}`)
  let pem: string
  try {
    pem = (await readBounded(file, MAX_PEM_BYTES)).toString('latin1')
  } catch (error) {
    throw fail((error as Error).message)
  }
  const kinds = [...pem.matchAll(/^-----BEGIN ([A-Z0-9 ]+)-----\s*$/gm)].map(([, kind]) => kind)
  if (kinds.some((kind) => kind.endsWith('PRIVATE KEY')))
    throw fail('it holds a private key; give the public one, "openssl pkey -in FILE -pubout" writes it, and keep the private one away from this server')
  if (kinds.length !== 1) throw fail(`it holds ${kinds.length} PEM blocks; give a file with one public key or certificate`)
  let key: KeyObject
  try {
    key = createPublicKey(pem)
  } catch {
    throw fail('it holds no public key in PEM; give a file with BEGIN PUBLIC KEY or BEGIN CERTIFICATE')
  }
  const fitting = algorithmsFor(key)
  if (fitting.length === 0) throw fail('its key is of no kind that verifies tokens; give RSA of at least 2048 bits, EC on P-256 or P-384, or Ed25519')
  const algorithms = new Set(fitting.filter((algorithm) => allowed.has(algorithm)))
  if (algorithms.size === 0)
    throw fail(`its key does not go with auth.jwt.algorithm "${[...allowed].join(', ')}"; set one of ${fitting.join(', ')}, or give another file`)
  return { key, algorithms }
}
