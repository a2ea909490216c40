/** What a rollup is: the members of a request, checked, and what is kept of them. Pure. */
import { SvcError } from 'svcdb/lib/errors'
import { BucketError, type Bucketing, bucketing, parseSpan } from 'svcdb/lib/time-buckets'
import { type Aggregation, PLAIN, parseAggregation } from './aggregations.ts'

/** As it is kept in the state store. */
export interface Definition {
  name: string
  /** Where its data lives: empty where namespaces are not kept apart. */
  namespace: string
  source: string
  target: string
  every: string
  timezone: string | null
  origin: string | null
  /** As `parseAggregation` reads them. */
  aggregations: string[]
  /** Tags of the target; null = all that the source has. */
  groupBy: string[] | null
  /** Age at which buckets go; 0 = as other measurements do. */
  retentionSecs: number
  /** Nanoseconds since the Unix epoch. Fixed widths in a zone follow its standard offset at that time. */
  created: string
}

export interface CreateBody {
  name: string
  source_measurement: string
  target_measurement: string
  every: string
  timezone?: string | null
  origin?: string | null
  aggregations: string[]
  group_by_tags?: string[] | null
  retention_seconds?: number | null
}

export const MAX_NAME = 128
export const MAX_TEXT = 1024
export const MAX_AGGREGATIONS = 32
export const MAX_TAGS = 64
const NAME = /^[A-Za-z0-9_][A-Za-z0-9_.:-]*$/
const MIN_WIDTH_NS = 1_000_000n

/** @throws INVALID_REQUEST naming what is wrong. */
export function definitionOf(body: CreateBody, namespace: string, now: bigint): Definition {
  const { name, source_measurement: source, target_measurement: target, every } = body
  const bad = (cause: string): SvcError => new SvcError('INVALID_REQUEST', `cannot create rollup "${name.slice(0, MAX_NAME)}": ${cause}`)
  if (!NAME.test(name) || name.length > MAX_NAME)
    throw bad(`a name is 1 to ${MAX_NAME} letters, digits and "_", "-", ".", ":", and begins with a letter, a digit or "_"`)
  if (source === target) throw bad(`"${source}" is its source and its target; name another target_measurement`)
  const aggregations = body.aggregations.map((text) => {
    const known = parseAggregation(text)
    if (known === undefined) throw bad(`unknown aggregation "${text.slice(0, 64)}"; it is one of ${PLAIN.join(', ')}, quantile(0.95)`)
    return known
  })
  if (aggregations.length === 0) throw bad('it has no aggregations; name at least one')
  const groupBy = body.group_by_tags ?? null
  if (groupBy?.some((tag) => tag === '')) throw bad('a tag of group_by_tags is empty')
  const definition: Definition = {
    ...{ name, namespace, source, target, every, timezone: body.timezone || null, origin: body.origin || null },
    aggregations: [...new Map(aggregations.map((one) => [one.suffix, one.shown])).values()],
    groupBy: groupBy === null ? null : [...new Set(groupBy)],
    ...{ retentionSecs: body.retention_seconds ?? 0, created: String(now) },
  }
  try {
    bucketsOf(definition)
  } catch (error) {
    if (error instanceof BucketError) throw bad(error.message)
    throw error
  }
  const span = parseSpan(every)
  if (span !== undefined && span.months === 0 && span.days === 0 && span.ns < MIN_WIDTH_NS) throw bad(`the width "${every}" is shorter than 1ms`)
  return definition
}

/** @throws BucketError */
export function bucketsOf({ every, timezone, origin, created }: Pick<Definition, 'every' | 'timezone' | 'origin' | 'created'>): Bucketing {
  return bucketing(every, timezone ?? '', origin ?? undefined, BigInt(created))
}

/** Equal for rollups whose buckets begin at the same times. */
export function bucketingKey(definition: Definition): string {
  const buckets = bucketsOf(definition)
  if (buckets.kind === 'fixed') return `${buckets.step} ${buckets.anchor}`
  const { every, timezone, origin } = definition
  return JSON.stringify([every, timezone, origin])
}

export function aggregationsOf({ aggregations }: Pick<Definition, 'aggregations'>): Aggregation[] {
  return aggregations.flatMap((text) => parseAggregation(text) ?? [])
}
