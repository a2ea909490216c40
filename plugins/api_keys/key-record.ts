/** A key as it is kept: see docs/formats/api-keys.md. */

import { ALL_NAMESPACES } from 'svcdb'
import { SchemaReader, type Static, Type } from 'svcdb/lib/schema'
import { LATEST_SECONDS, MAX_NAMESPACES, MAX_ROLES } from './config.ts'
import { type ApiKey, type KeySource, makeKey, nameProblem, namespaceProblems } from './key.ts'
import { hasUsualCost, parsePhc } from './phc.ts'

export const ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

const seconds = Type.Integer({ minimum: 0, maximum: LATEST_SECONDS })
const orNull = <T extends Parameters<typeof Type.Union>[0][number]>(schema: T) => Type.Union([schema, Type.Null()])

const recordSchema = Type.Object(
  {
    id: Type.String({ pattern: ID.source }),
    name: Type.String(),
    key_prefix: Type.String({ pattern: '^[A-Za-z0-9_-]{8}$' }),
    key_hash: Type.String({ maxLength: 512 }),
    tenant_id: orNull(Type.String()),
    namespaces: Type.Array(Type.String(), { maxItems: MAX_NAMESPACES }),
    roles: Type.Array(Type.String({ minLength: 1, maxLength: 128 }), { maxItems: MAX_ROLES }),
    admin: Type.Boolean(),
    enabled: Type.Boolean(),
    created_at: seconds,
    expires_at: orNull(seconds),
    last_used_at: orNull(seconds),
    usage_count: Type.Integer({ minimum: 0 }),
    description: orNull(Type.String({ maxLength: 1024 })),
  },
  { additionalProperties: false },
)
export type KeyRecord = Static<typeof recordSchema>

const reader = new SchemaReader(recordSchema)

/** @throws Error in a few words, which the caller puts behind the file's name. */
export function checkRecord(given: unknown): KeyRecord {
  const [first] = reader.read(given).problems
  if (first !== undefined) throw new Error(`${first.instancePath === '' ? 'the record' : first.instancePath.slice(1).replaceAll('/', '.')} ${first.message}`)
  const value = given as KeyRecord
  const name = nameProblem(value.name) ?? (value.name === value.name.trim() ? undefined : 'its name has blanks around it')
  const phc = parsePhc(value.key_hash)
  const [problem] = [name, typeof phc === 'string' ? `its key_hash: ${phc}` : undefined, ...namespaceProblems(specOf(value))].filter(
    (text) => text !== undefined,
  )
  if (problem !== undefined) throw new Error(problem)
  return value
}

/** @param record checked. */
export function keyOf(record: KeyRecord, source: KeySource): ApiKey {
  const phc = parsePhc(record.key_hash)
  if (typeof phc === 'string') throw new Error(phc)
  const { id, name, key_prefix, roles, admin, enabled, created_at: createdAt, expires_at, description } = record
  // As in the config: one of another cost is tried for every token, for its time would tell that it is there.
  const lookup = hasUsualCost(phc) ? { lookup: key_prefix } : {}
  const optional = { ...lookup, ...(expires_at === null ? {} : { expiresAt: expires_at }), ...(description === null ? {} : { description }) }
  const spec = specOf(record)
  // Older versions took an admin's empty list for all.
  const namespaces = admin && spec.namespaces.length === 0 && spec.tenant === undefined ? [ALL_NAMESPACES] : spec.namespaces
  return makeKey({ id, name, source, phc, ...spec, namespaces, admin, roles, enabled, createdAt, ...optional })
}

/** @param namespace not the only one of the key: a record that names none may be for all. */
export function withoutNamespace(record: KeyRecord, namespace: string): KeyRecord {
  const namespaces = record.namespaces.filter((name) => name !== namespace)
  return { ...record, namespaces, tenant_id: record.tenant_id === namespace ? null : record.tenant_id }
}

function specOf({ namespaces, tenant_id }: KeyRecord): { namespaces: readonly string[]; tenant?: string } {
  return { namespaces, ...(tenant_id === null ? {} : { tenant: tenant_id }) }
}
