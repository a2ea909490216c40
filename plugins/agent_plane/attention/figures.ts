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
  effects: Readonly<EffectTally>
  /** Signals whose runs may not begin yet. */
  waitingSignals: number
}

/** Attempts of effects since this process began, by how they ended, and the time that they took. */
export interface EffectTally {
  done: number
  failed: number
  in_doubt: number
  /** With both records of each. */
  seconds: number
}

export const newTally = (): EffectTally => ({ done: 0, failed: 0, in_doubt: 0, seconds: 0 })

/** Added up over tenants; what nothing was found of is 0. */
export function totals(all: Iterable<Figures>): Pick<Figures, 'runs' | 'attention' | 'waitingSignals'> {
  let waitingSignals = 0
  const runs = new Map<string, number>()
  const attention = new Map<string, number>(CONDITIONS.map((condition) => [condition, 0]))
  for (const each of all) {
    waitingSignals += each.waitingSignals
    for (const [status, count] of each.runs) runs.set(status, (runs.get(status) ?? 0) + count)
    for (const [condition, count] of each.attention) attention.set(condition, (attention.get(condition) ?? 0) + count)
  }
  return { runs, attention, waitingSignals }
}

/** One point of each tenant: `runs_<status>`, `attention_<condition>` with "_" for ".", and `effects_<result>` and `effects_seconds`, which count. @param now milliseconds since the Unix epoch. */
export async function writePoints(svc: Svc, namespace: string, now: number, figures: ReadonlyMap<string, Figures>): Promise<void> {
  const context = await svc.systemContext(namespace)
  const time = BigInt(Math.floor(now)) * 1_000_000n
  const { rejections } = await svc.ingest.write(context, {}, (batch) => {
    const measurement = batch.resolver.measurement(batch.namespace, MEASUREMENT)
    const table = batch.table(measurement)
    let place = 0
    for (const [tenant, { runs, attention, effects }] of figures) {
      const row = table.addRow(
        batch.resolver.series(measurement, ['tenant', tenant]),
        Number(BigInt.asIntN(32, time)),
        Number(BigInt.asIntN(32, time >> 32n)),
        place++,
      )
      for (const [status, count] of runs) table.column(`runs_${status}`, 'float64').setF64(row, count)
      for (const [name, count] of Object.entries(effects)) table.column(`effects_${name}`, 'float64').setF64(row, count)
      for (const condition of CONDITIONS) table.column(`attention_${condition.replaceAll('.', '_')}`, 'float64').setF64(row, attention.get(condition) ?? 0)
    }
  })
  const [first] = rejections
  if (first !== undefined) throw new Error(`cannot write the figures of the plane into namespace "${namespace}": ${first.message}`)
}
