/** /api/v1/rollups and below. */
import type { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import { AUDIT_LOG, type AuditAction, type AuditLog, type AuditRecord, audited, type HttpRequest, type RunningJob, type Svc, sendOutput } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { jsonListing } from 'svcdb/lib/json'
import { moduleUrl } from 'svcdb/lib/modules'
import { PLAIN } from './aggregations.ts'
import { bucketsBetween, ceilBucket, clampTime, FIRST_TIME, floorBucket } from './boundaries.ts'
import type { RollupsConfig } from './config.ts'
import { type CreateBody, type Definition, definitionOf } from './definition.ts'
import type { Follower } from './follower.ts'
import type { Materialiser } from './materialiser.ts'
import type { Passes } from './passes.ts'
import { later } from './passes.ts'
import { clipped, type Range, withoutRange, withRange } from './ranges.ts'
import { encryptedField } from './recompute-job.ts'
import type { Registry } from './registry.ts'
import type { Rollup } from './rollup.ts'
import { viewOf } from './view.ts'
import type { ViewArgs } from './view-job.ts'

const VIEW_JOB = moduleUrl('./view-job.ts', import.meta.url)
/** Names that a rollup gives its columns. */
const OWN_COLUMN = new RegExp(`_(${PLAIN.join('|')}|p\\d{1,3}(_\\d{1,4})?)$`)

interface HandlerDependencies {
  svc: Svc
  config: RollupsConfig
  registry: Registry
  follower: Follower
  materialiser: Materialiser
  passes: Passes
}

export class RollupsHandler {
  private readonly dependencies: HandlerDependencies
  /** Namespaces with a refresh under way. */
  private readonly refreshing = new Set<string>()

  constructor(dependencies: HandlerDependencies) {
    this.dependencies = dependencies
  }

  async create(request: HttpRequest): Promise<string> {
    const { svc, registry, follower, passes } = this.dependencies
    const definition = definitionOf(request.body as CreateBody, this.namespace(request), svc.clock.nowNanos())
    registry.check(definition)
    await this.requireMeasurements(definition)
    const { takenBefore } = await svc.storage.admission(definition.namespace, definition.source)
    const rollup = await audited(this.auditLog, this.entry(request, 'create_rollup', definition.name), () => registry.create(definition, takenBefore))
    follower.follow()
    passes.wake(rollup)
    return JSON.stringify(viewOf(rollup, false, 0))
  }

  list(request: HttpRequest): Readable {
    const { registry, passes } = this.dependencies
    const { offset, limit } = request.query as { offset: number; limit: number }
    const all = registry.list(this.namespace(request))
    const show = (rollup: Rollup) => viewOf(rollup, passes.isParked(rollup), passes.lagSecs(rollup))
    return jsonListing('{"items":[', all.slice(offset, offset + limit), show, `],"total":${all.length},"offset":${offset},"limit":${limit}}`)
  }

  async delete(request: HttpRequest): Promise<void> {
    const { registry, follower, materialiser } = this.dependencies
    const rollup = this.known(request, 'delete')
    await audited(this.auditLog, this.entry(request, 'drop_rollup', rollup.definition.name), () => registry.delete(rollup))
    follower.follow()
    // Its target is left to others.
    await materialiser.ended(rollup)
  }

  async refresh(request: HttpRequest): Promise<{ rollup: string; points_written: number }> {
    const { svc, config, passes, registry } = this.dependencies
    const rollup = this.known(request, 'refresh')
    const { name, namespace, source } = rollup.definition
    const refused = (code: 'INVALID_REQUEST' | 'RATE_LIMITED', cause: string) => new SvcError(code, `cannot refresh rollup "${name}": ${cause}`)
    const { body } = request
    if (typeof body === 'object' && body !== null && Object.keys(body).length > 0)
      throw refused('INVALID_REQUEST', 'it takes no body; give start and end in the query, such as ?start=0&end=3600000000000')
    const { start, end } = timesOf(request)
    if (start !== undefined && end !== undefined && start >= end) throw refused('INVALID_REQUEST', `its start ${start} is not before its end ${end}`)
    const [first, last] = [start ?? rollup.from, end ?? rollup.until]
    if (first === undefined || last === undefined || first >= last) return { rollup: name, points_written: 0 }
    if (this.refreshing.has(namespace)) throw refused('RATE_LIMITED', 'another refresh of the namespace is under way; retry when it has ended')
    this.refreshing.add(namespace)
    try {
      const { keptFrom } = await svc.storage.admission(namespace, source)
      let range: Range = [floorBucket(first, rollup.buckets), ceilBucket(last, rollup.buckets)]
      // What retention may have taken from the source cannot be computed again: those buckets stay.
      const floor = later(rollup.floor, keptFrom)
      if (floor !== undefined && range[0] < floor) range = [ceilBucket(floor, rollup.buckets), range[1]]
      requireFewBuckets(rollup, range, config.max_refresh_buckets, refused)
      const written = await passes.alone(rollup, () => this.recompute(rollup, range))
      for (const tier of registry.above(rollup)) if (tier.mark(range[0], range[1])) passes.wake(tier)
      await registry.save(undefined)
      rollup.notBefore = 0
      passes.wake(rollup)
      return { rollup: name, points_written: written }
    } finally {
      this.refreshing.delete(namespace)
    }
  }

  /** Materialised buckets, and all others as raw data has them now. */
  async view(request: HttpRequest, reply: FastifyReply): Promise<unknown> {
    const { svc, config } = this.dependencies
    const rollup = this.known(request, 'show')
    const { name, namespace } = rollup.definition
    const { start, end } = timesOf(request)
    const { limit, tags } = request.query as { limit?: number; tags?: string }
    const until = rollup.until
    const bounds = await svc.storage.admission(namespace, rollup.definition.source)
    const last = ceilBucket(end ?? bounds.newest, rollup.buckets)
    const first = start === undefined ? (rollup.from ?? clampTime(-(2n ** 62n))) : floorBucket(start, rollup.buckets)
    // A change marks what retention may have taken, too, until the next pass: it cannot be computed again, and those buckets stay.
    const floor = later(rollup.floor, later(rollup.exact ? undefined : bounds.keptFrom, rollup.lost))
    const dirty = floor === undefined ? rollup.dirty : withoutRange(rollup.dirty, [FIRST_TIME, ceilBucket(floor, rollup.buckets)])
    const live = until === undefined ? [[first, last] as const] : until < last ? withRange(dirty, [until, last], Number.MAX_SAFE_INTEGER) : dirty
    const args: ViewArgs = {
      ...{ definition: rollup.definition, start: first, end: last, live: clipped(live, [first, last]), until: until ?? 0n },
      ...{ tags: tagsOf(rollup, tags), maxRows: Math.min(limit ?? config.max_query_rows, config.max_query_rows) },
      ...{
        maxBuckets: config.max_buckets_per_slice,
        maxBytes: config.max_slice_bytes,
        maxHeldBytes: svc.server.max_held_memory,
        sql: svc.storage.capabilities.has('sql'),
      },
    }
    if (first >= last) throw new SvcError('INVALID_REQUEST', `cannot show rollup "${name}": the start ${start} is not before the end ${end}`)
    const job: RunningJob<number> = svc.storage.run<number>(VIEW_JOB, args, { namespace, ...this.viewLimit })
    await sendOutput(request, reply, job, () => void reply.type('application/json'))
    return reply
  }

  /** A view is a question: it has no more time than others have. */
  private get viewLimit(): { timeoutMs: number; timeoutSetting: string } {
    const { job_timeout_secs } = this.dependencies.config
    const { sql_query_timeout_secs } = this.dependencies.svc.server
    const isShorter = sql_query_timeout_secs > 0 && sql_query_timeout_secs < job_timeout_secs
    return isShorter
      ? { timeoutMs: sql_query_timeout_secs * 1000, timeoutSetting: 'server.sql_query_timeout_secs' }
      : { timeoutMs: job_timeout_secs * 1000, timeoutSetting: 'rollups.job_timeout_secs' }
  }

  private async recompute(rollup: Rollup, range: Range): Promise<number> {
    const { svc, materialiser } = this.dependencies
    let written = 0
    let first: bigint | undefined
    rollup.begin(range)
    try {
      for (let at = range[0]; at < range[1]; ) {
        const done = await materialiser.slice(rollup, at, range[1], svc.stopping)
        written += done?.written ?? 0
        first ??= done?.first
        at = done?.end ?? range[1]
      }
    } catch (error) {
      rollup.failed()
      throw error
    }
    rollup.done(range, false, first)
    return written
  }

  /** @throws INVALID_REQUEST for an encrypted field, CONFLICT for a target that holds something else. */
  private async requireMeasurements({ name, namespace, source, target }: Definition): Promise<void> {
    const { storage } = this.dependencies.svc
    const [from] = await storage.measurements(namespace, source)
    const encrypted = from?.fields.find((field) => field.encrypted === true)
    if (encrypted !== undefined) throw encryptedField(name, source, encrypted.name)
    const [into] = await storage.measurements(namespace, target)
    const foreign = into?.fields.find((field) => !OWN_COLUMN.test(field.name))
    if (foreign !== undefined)
      throw new SvcError(
        'CONFLICT',
        `cannot create rollup "${name}": measurement "${target}" exists and has a field "${foreign.name}" that no rollup writes; choose another target_measurement`,
      )
  }

  private known(request: HttpRequest, verb: string): Rollup {
    const { name } = request.params as { name: string }
    const rollup = this.dependencies.registry.get(this.namespace(request), name)
    if (rollup === undefined)
      throw new SvcError('NOT_FOUND', `cannot ${verb} rollup "${name.slice(0, 256)}": there is none of this name; GET /api/v1/rollups lists them`)
    return rollup
  }

  private namespace(request: HttpRequest): string {
    return this.dependencies.svc.context(request).dataNamespace
  }

  private get auditLog(): AuditLog | undefined {
    return this.dependencies.svc.find<AuditLog>(AUDIT_LOG)
  }

  private entry(request: HttpRequest, action: AuditAction, resource: string): AuditRecord {
    return { action, resource, decision: 'allow', by: this.dependencies.svc.context(request) }
  }
}

function timesOf(request: HttpRequest): { start: bigint | undefined; end: bigint | undefined } {
  const { start, end } = request.query as { start?: string; end?: string }
  const read = (text: string | undefined) => (text === undefined ? undefined : clampTime(BigInt(text)))
  return { start: read(start), end: read(end) }
}

function tagsOf({ definition }: Rollup, text: string | undefined): Record<string, string> {
  if (text === undefined) return {}
  const bad = (cause: string) => new SvcError('BAD_REQUEST', `cannot show rollup "${definition.name}": ${cause}`)
  let tags: unknown
  try {
    tags = JSON.parse(text)
  } catch {
    throw bad('tags is no JSON; write {"host":"a"}')
  }
  if (typeof tags !== 'object' || tags === null || Array.isArray(tags) || Object.values(tags).some((value) => typeof value !== 'string'))
    throw bad('tags is no object of texts; write {"host":"a"}')
  const unknown = Object.keys(tags).find((key) => definition.groupBy !== null && !definition.groupBy.includes(key))
  if (unknown !== undefined) throw bad(`its buckets have no tag "${unknown}"; group_by_tags has ${definition.groupBy?.join(', ')}`)
  return tags as Record<string, string>
}

function requireFewBuckets({ buckets }: Rollup, [start, end]: Range, max: number, refused: (code: 'INVALID_REQUEST', cause: string) => SvcError): void {
  if (bucketsBetween(start, end, buckets) > max)
    throw refused('INVALID_REQUEST', `the range has more than ${max} buckets, which is rollups.max_refresh_buckets; refresh it in parts`)
}
