/** What a request calls the database that it writes to: `db` and `rp` of InfluxDB 1, `bucket` of InfluxDB 2. */
import { SvcError } from 'svcdb/lib/errors'
import { nameFault } from './series-key.ts'

/** Characters of a name that a message shows. */
const MAX_SHOWN = 64

interface DatabaseName {
  /** undefined when the request names none. */
  database: string | undefined
  retentionPolicy: string | undefined
}

/** One parameter of the URL; undefined when it is absent or empty. @throws BAD_REQUEST when it is there more than once. */
type Parameter = (name: 'db' | 'bucket' | 'rp') => string | undefined

/**
 * A bucket `telegraf/autogen` is database and retention policy, as InfluxDB 1.8 has it under the API of 2.
 * @throws BAD_REQUEST when two parameters disagree.
 */
export function databaseName(parameter: Parameter): DatabaseName {
  const [db, bucket, rp] = [parameter('db'), parameter('bucket'), parameter('rp')]
  const slash = bucket?.indexOf('/') ?? -1
  const ofBucket = slash < 0 ? { database: bucket } : { database: bucket?.slice(0, slash) || undefined, retentionPolicy: bucket?.slice(slash + 1) || undefined }
  return {
    database: agreed('db', db, 'bucket', ofBucket.database),
    retentionPolicy: agreed('rp', rp, 'bucket', ofBucket.retentionPolicy),
  }
}

/** @throws BAD_REQUEST when both are given and differ. */
export function agreed(what: string, value: string | undefined, otherWhat: string, other: string | undefined): string | undefined {
  if (value !== undefined && other !== undefined && value !== other)
    throw new SvcError('BAD_REQUEST', `cannot use ${what} ${shown(value)}: ${otherWhat} says ${shown(other)}; send one of them, or both alike`)
  return value ?? other
}

/** Parameters as the router has parsed them. */
export function parametersOf(query: Readonly<Record<string, unknown>>): Parameter {
  return (name) => {
    const value = query[name]
    if (value === undefined || value === '') return undefined
    if (typeof value !== 'string') throw new SvcError('BAD_REQUEST', `cannot use parameter "${name}": it is there more than once; send it once`)
    return value
  }
}

export const shown = (name: string): string => JSON.stringify(name.slice(0, MAX_SHOWN))

/**
 * The tags that stand for the names: key, value, key, value.
 * @throws BAD_REQUEST for a name that no tag can have.
 */
export function databaseTags({ database, retentionPolicy }: DatabaseName, keys: { database: string; retentionPolicy: string }, maxBytes: number): string[] {
  const tags: string[] = []
  const add = (what: string, key: string, value: string | undefined): void => {
    if (key === '' || value === undefined) return
    const fault = nameFault(what, value, maxBytes)
    if (fault !== undefined) throw new SvcError('BAD_REQUEST', `cannot use ${what} ${shown(value)} as tag "${key}": ${fault}; choose another name`)
    tags.push(key, value)
  }
  add('database', keys.database, database)
  add('retention policy', keys.retentionPolicy, retentionPolicy)
  return tags
}
