/** Where an engine asks whether a namespace may have more: the guard of namespaces, if there is one, and what the others are left. */
import type { NamespaceGuard } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import type { Limits } from './limits.ts'

const NO_LIMITS = { maxSeriesCardinality: Number.POSITIVE_INFINITY, maxFields: Number.POSITIVE_INFINITY }
const shareOf = (max: number): number => Math.ceil(max * (3 / 4))

export class NamespaceGate {
  guard: NamespaceGuard | undefined
  private readonly maxSeries: number
  private readonly maxFields: number
  /** A namespace that has a guard leaves a quarter to the others. */
  private readonly share: number

  /** @param limits of all namespaces together. */
  constructor({ maxSeriesCardinality, maxFields }: Pick<Limits, 'maxSeriesCardinality' | 'maxFields'> = NO_LIMITS) {
    this.maxSeries = maxSeriesCardinality
    this.maxFields = maxFields
    this.share = shareOf(maxSeriesCardinality)
  }

  /** @throws SvcError when nothing is to be written to the namespace. */
  requireOpen(namespace: string): void {
    const refusal = this.guard?.refusal(namespace)
    if (refusal !== undefined) throw refusal
  }

  /** @param count those there are. @throws SvcError when there is to be no more of the kind. */
  requireRoom(namespace: string, kind: 'series' | 'measurements', count: number): void {
    const { guard } = this
    const bounds = guard?.bounds(namespace)
    if (guard === undefined || bounds === undefined) return
    const max = kind === 'series' ? bounds.maxSeries : bounds.maxMeasurements
    if (max > 0 && count >= max) throw guard.exceeded(namespace, kind)
    // Without multi_tenancy there is one, which has no name.
    if (kind === 'series' && count >= this.share && namespace !== '') throw this.noShare(namespace)
  }

  /** How many fields a namespace may have besides those there are. @param own how many it has, of all. */
  fieldsLeft(namespace: string, own: number, all: number): number {
    return Math.max(0, Math.min(this.maxFields - all, this.fieldShare(namespace) - own))
  }

  /** What is said of a field that finds none left. */
  noFieldLeft({ namespace, name }: { namespace: string; name: string }, field: string, own: number, all: number): SvcError {
    const cannot = `cannot add field "${field}" to measurement "${name}"`
    const limit = `[database] max_fields = ${this.maxFields}`
    const share = this.fieldShare(namespace)
    return new SvcError(
      'CARDINALITY_EXCEEDED',
      share - own < this.maxFields - all
        ? `${cannot}: namespace "${namespace}" has ${own} fields, and one namespace at most three quarters, ${share}, of ${limit}; drop measurements that are not needed, or have it raised`
        : `${cannot}: all measurements together have ${all} fields of at most ${limit}; drop some that are not needed, or raise it`,
    )
  }

  /** As with series: of a namespace that has bounds. Without multi_tenancy there is one, which has no name. */
  private fieldShare(namespace: string): number {
    return this.guard?.bounds(namespace) === undefined || namespace === '' ? Number.POSITIVE_INFINITY : shareOf(this.maxFields)
  }

  private noShare(namespace: string): SvcError {
    return new SvcError(
      'CARDINALITY_EXCEEDED',
      `cannot begin a series in namespace "${namespace}": one namespace has at most three quarters, ${this.share}, of [database] max_series_cardinality = ${this.maxSeries}; drop tags with many values, delete old series, or have it raised`,
    )
  }
}
