/** Where an engine asks whether a namespace may have more: the guard of namespaces, if there is one, and what the others are left. */
import type { NamespaceGuard } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'

export class NamespaceGate {
  guard: NamespaceGuard | undefined
  private readonly maxSeries: number
  /** A namespace that has a guard leaves a quarter to the others. */
  private readonly share: number

  /** @param maxSeries of all namespaces. */
  constructor(maxSeries = Number.POSITIVE_INFINITY) {
    this.maxSeries = maxSeries
    this.share = Math.ceil(maxSeries * (3 / 4))
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

  private noShare(namespace: string): SvcError {
    return new SvcError(
      'CARDINALITY_EXCEEDED',
      `cannot begin a series in namespace "${namespace}": one namespace has at most three quarters, ${this.share}, of [database] max_series_cardinality = ${this.maxSeries}; drop tags with many values, delete old series, or have it raised`,
    )
  }
}
