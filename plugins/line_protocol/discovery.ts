/** What clients ask about the server before they write: buckets of InfluxDB 2, and what QuestDB's clients negotiate by. */

export interface BucketQuery {
  name?: string
  id?: string
  limit?: number
  offset?: number
}

/**
 * Buckets are not things of their own: any name can be written to, but with `database = "namespace"`, where it is that of the namespace.
 * @param namespace of the caller, if that is what buckets are.
 */
export function bucketList({ name, id, limit = 20, offset = 0 }: BucketQuery, namespace: string, byName: boolean): object {
  const asked = name ?? id
  const names = asked === undefined || (byName && asked === namespace) ? [namespace] : byName ? [] : [asked]
  const buckets = names.slice(offset, offset + limit).map((each) => ({ id: each, name: each, type: 'user', retentionRules: [] }))
  return { links: { self: '/api/v2/buckets' }, buckets }
}

/** Version 1 of the line protocol as QuestDB has it is that of InfluxDB; 2 and 3 have binary values between the text, which are not read. */
export const QUESTDB_SETTINGS = { config: { 'line.proto.support.versions': [1] } }
