/** Quotas on what is written: rate and bytes at the one way in for writes, series and measurements where they come into being. */
import type { CallContext, Clock, Counter, NamespaceBounds, NamespaceGuard, NamespaceUsage, Storage } from 'svcdb'
import type { WriteBatch } from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'
import type { NamespacesConfig } from './config.ts'
import { DEFAULT_NAMESPACE } from './definition.ts'
import type { Directory } from './directory.ts'
import { PointBucket, RateMeter } from './rate.ts'

/** Seconds after which it may be worth trying again to write to a namespace that is full: something may have been deleted. */
const FULL_RETRY_SECS = 60

/** What is known of a namespace that is written to. */
class Flow {
  readonly meter = new RateMeter()
  readonly bucket = new PointBucket()
  bytes = 0
  bytesAt = Number.NEGATIVE_INFINITY
  measuring: Promise<void> | undefined
}

interface GuardDependencies {
  directory: Directory
  config: NamespacesConfig
  multiTenancy: boolean
  clock: Clock
  storage(): Storage
  refusals: Counter
  failed(error: Error, name: string): void
}

export class QuotaGuard implements NamespaceGuard {
  private readonly dependencies: GuardDependencies
  private readonly flows = new Map<string, Flow>()

  constructor(dependencies: GuardDependencies) {
    this.dependencies = dependencies
  }

  /** What every write passes. @throws NOT_FOUND, RATE_LIMITED. */
  readonly admit = (batch: WriteBatch, { namespace }: Pick<CallContext, 'namespace'>): void | Promise<void> => {
    const coming = this.dependencies.directory.ensure(namespace) ?? this.measured(namespace)
    if (coming === undefined) return this.check(namespace, batch.rows)
    return this.checkLater(coming, namespace, batch.rows)
  }

  /** What a write passes before it is decoded: where the quota is used up, reading points that cannot be taken would cost the others. @throws RATE_LIMITED. */
  readonly admitAny = ({ namespace }: Pick<CallContext, 'namespace'>): void => {
    if (this.flows.has(namespace) && this.isMeasured(namespace)) this.check(namespace, 0)
  }

  async usage(name: string): Promise<NamespaceUsage & { rate: number }> {
    const { clock, storage } = this.dependencies
    const data = this.dataOf(name)
    const held = data === undefined ? { series: 0, measurements: 0, bytes: 0 } : await storage().usage(data)
    return { ...held, rate: this.flows.get(name)?.meter.rate(clock.monotonic()) ?? 0 }
  }

  forget(name: string): void {
    this.flows.delete(name)
  }

  refusal(data: string): SvcError | undefined {
    const { directory, failed } = this.dependencies
    if (data === '') return undefined
    const refusal = directory.refusal(data)
    // Writes have seen to that; what comes by another way, such as a declared field, is not kept waiting for it.
    if (refusal === undefined && data !== DEFAULT_NAMESPACE && directory.registry.get(data) === undefined)
      directory.come(data).catch((error) => failed(error as Error, data))
    return refusal
  }

  bounds(data: string): NamespaceBounds | undefined {
    const name = this.nameOf(data)
    if (name === undefined) return undefined
    const { max_series_count, max_measurements } = this.dependencies.directory.quota(name)
    return { maxSeries: max_series_count, maxMeasurements: max_measurements }
  }

  exceeded(data: string, kind: 'series' | 'measurements'): SvcError {
    const name = this.nameOf(data) ?? data
    const { max_series_count, max_measurements } = this.dependencies.directory.quota(name)
    const [member, limit, one] = kind === 'series' ? ['max_series_count', max_series_count, 'series'] : ['max_measurements', max_measurements, 'measurement']
    this.dependencies.refusals.inc({ quota: kind })
    return exceeded(`cannot begin a ${one}`, name, `${member} of ${limit} is reached`, member, `delete some, or `)
  }

  private async checkLater(coming: Promise<void>, name: string, points: number): Promise<void> {
    await coming
    await this.measured(name)
    this.check(name, points)
  }

  /** @param points 0 = whether any would pass. */
  private check(name: string, points: number): void {
    const { directory, config, clock, refusals } = this.dependencies
    const { max_ingestion_rate: rate, max_storage_bytes: most } = directory.quota(name)
    const flow = this.flow(name)
    const now = clock.monotonic()
    if (most > 0 && flow.bytes >= most) {
      refusals.inc({ quota: 'storage' })
      throw exceeded('cannot write', name, `max_storage_bytes of ${most} is reached`, 'max_storage_bytes', 'delete data, or ', FULL_RETRY_SECS)
    }
    const wait = rate > 0 ? flow.bucket.take(points, rate, rate * config.ingestion_burst_secs, now) : 0
    if (wait > 0) {
      refusals.inc({ quota: 'ingestion_rate' })
      const cause = `max_ingestion_rate of ${rate} points a second is exceeded`
      throw exceeded('cannot write', name, cause, 'max_ingestion_rate', 'send more slowly, or ', Math.ceil(wait / 1000))
    }
    flow.meter.add(points, now)
  }

  /** Resolves when the bytes of a namespace that may have only so many are known well enough; undefined = they are. One question for all who wait. */
  private measured(name: string): Promise<void> | undefined {
    if (this.isMeasured(name)) return undefined
    const flow = this.flow(name)
    flow.measuring ??= this.measure(flow, this.dataOf(name) as string)
    return flow.measuring
  }

  private isMeasured(name: string): boolean {
    const { directory, config, clock } = this.dependencies
    if (this.dataOf(name) === undefined || directory.quota(name).max_storage_bytes === 0) return true
    return clock.monotonic() - this.flow(name).bytesAt < config.storage_refresh_secs * 1000
  }

  private async measure(flow: Flow, data: string): Promise<void> {
    try {
      const { bytes } = await this.dependencies.storage().usage(data)
      flow.bytes = bytes
      flow.bytesAt = this.dependencies.clock.monotonic()
    } finally {
      flow.measuring = undefined
    }
  }

  private flow(name: string): Flow {
    let flow = this.flows.get(name)
    if (flow === undefined) this.flows.set(name, (flow = new Flow()))
    return flow
  }

  /** Where the data of a namespace lies; undefined = it has none of its own. */
  private dataOf(name: string): string | undefined {
    if (this.dependencies.multiTenancy) return name
    return name === DEFAULT_NAMESPACE ? '' : undefined
  }

  private nameOf(data: string): string | undefined {
    if (this.dependencies.multiTenancy) return data === '' ? undefined : data
    return data === '' ? DEFAULT_NAMESPACE : undefined
  }
}

function exceeded(what: string, name: string, cause: string, member: string, first: string, retryAfterSecs?: number): SvcError {
  const text = `${what} in namespace "${name}": its quota ${cause}; ${first}have it raised with PUT /api/v1/namespaces/${name}/quota {"${member}": ...}`
  return new SvcError('RATE_LIMITED', text, retryAfterSecs === undefined ? {} : { headers: { 'retry-after': String(Math.max(1, retryAfterSecs)) } })
}
