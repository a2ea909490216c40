/** Where an engine asks the guard of namespaces, if there is one. */
import type { NamespaceGuard } from 'svcdb'

export class NamespaceGate {
  guard: NamespaceGuard | undefined

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
  }
}
