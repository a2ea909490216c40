/**
 * For tests: reads a measurement at the pace of a client that takes its output now and then, after work that takes a while. Row of time n of a measurement has the value n * salt.
 * The result is the number of rows.
 */
import { setTimeout } from 'node:timers/promises'
import type { Job } from 'svcdb'

/** As much as may be under way. */
const WINDOW = 4 << 20

const job: Job<{ namespace: string; measurement: string; salt: number; start: bigint; pauses: number; workMs?: number }, number> = async (
  reader,
  args,
  { emit, signal },
) => {
  const { namespace, measurement, salt, start, pauses, workMs } = args
  if (workMs !== undefined) await setTimeout(workMs, undefined, { signal })
  for (let i = 0; i < pauses; i++) await emit(new Uint8Array(WINDOW))
  let rows = 0
  for await (const { times, columns } of reader.scan({ namespace, measurement, start })) {
    const [values] = columns
    for (let i = 0; i < times.length; i++) {
      const value = Number((values.values as Float64Array)[i])
      if (value !== Number(times[i] % 1_000_000n) * salt) throw new Error(`time ${times[i]} of ${measurement} has ${value}: that is not its own`)
    }
    rows += times.length
    await emit(new Uint8Array(1))
  }
  return rows
}

export default job
