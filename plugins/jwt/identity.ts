/** Verified claims as an identity. Pure. */
import { ALL_NAMESPACES, type Identity, isForAll, namespaceListProblems } from 'svcdb'
import { TokenRefused } from './refusal.ts'

const MAX_PRINCIPAL_LENGTH = 512
/** The last instant that a Date can hold. */
const END_OF_TIME_MS = 8.64e15

export interface ClaimRules {
  roleClaim: string
  principalClaim: string
  multiTenancy: boolean
  /** How far the issuer's clock may differ. */
  clockSkewMs: number
}

/** @param claims with a number `exp`. @param revoked whether the token's key was taken back since. @throws TokenRefused for a claim of a wrong type or value. */
export function identityOf(claims: Record<string, unknown>, rules: ClaimRules, revoked?: () => boolean): Identity {
  const { roleClaim, principalClaim, multiTenancy, clockSkewMs } = rules
  principalOf(claims, 'sub')
  const principal = principalOf(claims, principalClaim)
  const admin = adminOf(claims)
  const roles = textsOf(roleClaim, claimAt(claims, roleClaim)) ?? []
  const namespaces = namespacesOf(claims, multiTenancy, admin)
  const expiresAt = Math.min((claims.exp as number) * 1000, END_OF_TIME_MS)
  return Object.freeze({
    principal,
    method: 'jwt',
    claims: Object.freeze(claims),
    roles: Object.freeze(roles),
    namespaces: Object.freeze(namespaces),
    admin,
    expiresAt,
    toleranceMs: clockSkewMs,
    ...(revoked === undefined ? {} : { revoked }),
  })
}

/** A claim whose own name has dots, as those that are URLs, goes before a path. */
function claimAt(claims: Record<string, unknown>, path: string): unknown {
  if (Object.hasOwn(claims, path)) return claims[path]
  let at: unknown = claims
  for (const name of path.split('.')) {
    if (typeof at !== 'object' || at === null || Array.isArray(at) || !Object.hasOwn(at, name)) return undefined
    at = (at as Record<string, unknown>)[name]
  }
  return at
}

function principalOf(claims: Record<string, unknown>, claim: string): string {
  const value = claimAt(claims, claim)
  if (typeof value !== 'string' || value.trim() === '' || value.length > MAX_PRINCIPAL_LENGTH || hasControls(value))
    throw wrong(claim, `a text of 1 to ${MAX_PRINCIPAL_LENGTH} characters`)
  return value
}

function hasControls(text: string): boolean {
  return /\p{Cc}/u.test(text)
}

function adminOf({ admin }: Record<string, unknown>): boolean {
  if (admin !== undefined && typeof admin !== 'boolean') throw wrong('admin', 'true or false')
  return admin === true
}

/** @param needed whether a token that names none is refused: data is kept apart. @returns none for all of them. */
function namespacesOf(claims: Record<string, unknown>, needed: boolean, admin: boolean): string[] {
  const listed = textsOf('namespaces', claims.namespaces)
  const tenant = claims.tenant_id
  if (tenant !== undefined && typeof tenant !== 'string') throw wrong('tenant_id', 'a text')
  const names = [...new Set([...(listed ?? []), ...(tenant === undefined ? [] : [tenant])])]
  if (needed && names.length === 0)
    throw new TokenRefused(
      'claims',
      'it names no namespace, and the server keeps namespaces apart; have it issued with the claim namespaces or tenant_id, for an admin of all of them "*"',
    )
  const [problem] = namespaceListProblems(names)
  if (problem !== undefined) throw new TokenRefused('claims', `${problem}; have it issued with other claims namespaces and tenant_id`)
  if (!isForAll(names)) return names
  if (needed && !admin)
    throw new TokenRefused(
      'claims',
      `it is for all namespaces ("${ALL_NAMESPACES}") and no admin's, and the server keeps namespaces apart; have it issued with names`,
    )
  return []
}

/** A list of texts, or one; undefined where the claim is absent. */
function textsOf(claim: string, value: unknown): string[] | undefined {
  if (value === undefined) return undefined
  const list = Array.isArray(value) ? value : [value]
  if (list.some((item) => typeof item !== 'string' || item === '' || hasControls(item))) throw wrong(claim, 'a text or a list of texts')
  return [...new Set(list as string[])]
}

function wrong(claim: string, rule: string): TokenRefused {
  return new TokenRefused('claims', `the claim ${claim} must be ${rule}; have it issued so`)
}
