/** Counts rows of some times, says what it was given to go on from, and keeps a text for the next ones. */
import type { Job } from 'svcdb'

export interface PartialArgs {
  namespace: string
  /** Of the rows that it reads, nanoseconds as text. */
  start: string
  end: string
  keep: string
  /** Tells jobs apart that are equal otherwise. */
  name?: string
}

export interface PartialOutcome {
  rows: number
  /** Absent: it was not told of anything kept. '' = nothing was. */
  found?: string
  changed: [string, string][]
}

const job: Job<PartialArgs, PartialOutcome> = async (reader, { namespace, start, end, keep }, { partial }) => {
  let rows = 0
  for await (const { times } of reader.scan({ namespace, measurement: 'm', start: BigInt(start), end: BigInt(end) })) rows += times.length
  partial?.keep(Buffer.from(keep))
  const changed = (partial?.changed ?? []).map(([from, to]): [string, string] => [String(from), String(to)])
  return { rows, changed, ...(partial === undefined ? {} : { found: Buffer.from(partial.bytes ?? []).toString() }) }
}

export default job
