/** Figures of the planes: as gauges, and as points of the measurement `agent_plane` where the config names a namespace for them. */
import type { Svc } from 'svcdb'
import { CONDITIONS } from './conditions.ts'

const MEASUREMENT = 'agent_plane'

/** Of one tenant. */
export interface Figures {
  /** Runs that are not over by status, up to a bound. */
  runs: ReadonlyMap<string, number>
  /** What needs a person, by condition; absent = nothing. */
  attention: ReadonlyMap<string, number>
}

/** Added up over tenants; what nothing was found of is 0. */
export function totals(all: Iterable<Figures>): Figures {
  const runs = new Map<string, number>()
  const attention = new Map<string, number>(CONDITIONS.map((condition) => [condition, 0]))
  for (const each of all) {
    for (const [status, count] of each.runs) runs.set(status, (runs.get(status) ?? 0) + count)
    for (const [condition, count] of each.attention) attention.set(condition, (attention.get(condition) ?? 0) + count)
  }
  return { runs, attention }
}

/** One point of each tenant: `runs_<status>`, and `attention_<condition>` with "_" for ".". @param now milliseconds since the Unix epoch. */
export async function writePoints(svc: Svc, namespace: string, now: number, figures: ReadonlyMap<string, Figures>): Promise<void> {
  const context = await svc.systemContext(namespace)
  const time = BigInt(Math.floor(now)) * 1_000_000n
  const { rejections } = await svc.ingest.write(context, {}, (batch) => {
    const measurement = batch.resolver.measurement(batch.namespace, MEASUREMENT)
    const table = batch.table(measurement)
    let place = 0
    for (const [tenant, { runs, attention }] of figures) {
      const row = table.addRow(
        batch.resolver.series(measurement, ['tenant', tenant]),
        Number(BigInt.asIntN(32, time)),
        Number(BigInt.asIntN(32, time >> 32n)),
        place++,
      )
      for (const [status, count] of runs) table.column(`runs_${status}`, 'float64').setF64(row, count)
      for (const condition of CONDITIONS) table.column(`attention_${condition.replaceAll('.', '_')}`, 'float64').setF64(row, attention.get(condition) ?? 0)
    }
  })
  const [first] = rejections
  if (first !== undefined) throw new Error(`cannot write the figures of the plane into namespace "${namespace}": ${first.message}`)
}
