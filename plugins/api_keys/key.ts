/** A key as it is used: who it stands for and what it is known by. */
import { type Identity, isForAll, namespaceListProblems } from 'svcdb'
import type { Phc } from './phc.ts'

export type KeySource = 'config' | 'runtime' | 'store'

interface KeySpec {
  id: string
  name: string
  source: KeySource
  /** What it is looked up by; undefined = it is tried for every token, or is known by its digest. */
  lookup?: string
  /** Undefined where it is known by its digest. */
  phc?: Phc
  namespaces: readonly string[]
  tenant?: string
  admin: boolean
  roles: readonly string[]
  enabled: boolean
  /** Unix seconds, as are all times here. */
  createdAt?: number
  expiresAt?: number
  description?: string
}

export interface ApiKey extends Omit<KeySpec, 'namespaces'> {
  /** With the tenant's among them. */
  namespaces: readonly string[]
  identity: Identity
  usage: { at: number | undefined; count: number }
  /** It was revoked, or another took its place. */
  gone: boolean
}

const MAX_NAME = 128
/** Control and format characters, halves of characters, line and paragraph separators. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u

/** @param name trimmed. @returns what is wrong with it, or undefined. */
export function nameProblem(name: string): string | undefined {
  const shown = JSON.stringify(name.slice(0, MAX_NAME))
  if (name === '' || [...name].length > MAX_NAME) return `cannot use key name ${shown}: it has ${[...name].length} characters; 1 to ${MAX_NAME} are allowed`
  if (UNPRINTABLE.test(name)) return `cannot use key name ${shown}: it has characters that cannot be printed; leave them out`
  return name === '.' || name === '..' ? `cannot use key name ${shown}: it cannot stand in a path; choose another` : undefined
}

/** What is wrong with the namespaces that a key names. */
export function namespaceProblems({ namespaces, tenant }: { namespaces: readonly string[]; tenant?: string }): string[] {
  return namespaceListProblems([...namespaces, ...(tenant === undefined ? [] : [tenant])])
}

export function makeKey(spec: KeySpec): ApiKey {
  const { id, name, tenant, admin, roles, expiresAt } = spec
  const namespaces = [...new Set([...spec.namespaces, ...(tenant === undefined ? [] : [tenant])])]
  const everywhere = isForAll(namespaces)
  const tenantId = tenant ?? (namespaces.length === 1 && !everywhere ? namespaces[0] : undefined)
  const claims = Object.freeze({ key_id: id, ...(tenantId === undefined ? {} : { tenant_id: tenantId }) })
  const own = Object.freeze(everywhere ? [] : namespaces)
  const identity: Identity = { principal: name, method: 'api_key', claims, roles: Object.freeze([...roles]), namespaces: own, admin }
  if (expiresAt !== undefined) identity.expiresAt = expiresAt * 1000
  const key: ApiKey = { ...spec, namespaces, identity, usage: { at: undefined, count: 0 }, gone: false }
  identity.revoked = () => key.gone
  Object.freeze(identity)
  return key
}

/** A key that does not say under multi-tenancy which namespaces it is for, or says all and is no admin's. */
export function isHomeless({ admin, namespaces }: Pick<ApiKey, 'admin' | 'namespaces'>): boolean {
  return namespaces.length === 0 || (!admin && isForAll(namespaces))
}

/** @param nowMs milliseconds since the Unix epoch. */
export function hasExpired({ expiresAt }: Pick<ApiKey, 'expiresAt'>, nowMs: number): boolean {
  return expiresAt !== undefined && expiresAt * 1000 <= nowMs
}

/** An admin over everything, who can make all others. */
export function isFullAdmin({ admin, identity, enabled }: ApiKey): boolean {
  return admin && enabled && identity.namespaces.length === 0
}
