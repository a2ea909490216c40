/** The core: from a posted body to a row, and from scanned rows to the latest reading. No HTTP, no clock. */
import { type SeriesChunk, SvcError, type WriteBatch } from 'svcdb'

export type Reading = Record<string, number>

/** @throws SvcError INVALID_BODY, naming the member at fault. */
export function checkReading(body: unknown, maxFields: number): Reading {
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    throw new SvcError('INVALID_BODY', 'cannot read the reading: it must be an object of numbers')
  const members = Object.entries(body)
  if (members.length === 0) throw new SvcError('INVALID_BODY', 'cannot read the reading: it is empty; send at least one number')
  if (members.length > maxFields)
    throw new SvcError('INVALID_BODY', `cannot read the reading: it has ${members.length} numbers, and webhook.max_fields is ${maxFields}`)
  for (const [name, value] of members) {
    if (typeof value !== 'number' || !Number.isFinite(value)) throw new SvcError('INVALID_BODY', `cannot read "${name.slice(0, 64)}": it must be a number`)
  }
  return body as Reading
}

/** Adds the reading as one row. @throws SvcError when a name is refused or a field is not a float64. */
export function addReading(batch: WriteBatch, measurement: string, source: string, time: bigint, reading: Reading): void {
  const { resolver, namespace } = batch
  const ref = resolver.measurement(namespace, measurement)
  const table = batch.table(ref)
  // Times travel as two 32-bit halves, low first.
  const row = table.addRow(resolver.series(ref, ['source', source]), Number(BigInt.asIntN(32, time)), Number(BigInt.asIntN(32, time >> 32n)), 0)
  for (const [name, value] of Object.entries(reading)) table.column(name, 'float64').setF64(row, value)
}

/** The newest value of each field, and the time of the newest row. @param chunks of one series, in ascending time. */
export async function latest(chunks: AsyncIterable<SeriesChunk>): Promise<{ time: bigint; reading: Reading } | undefined> {
  let time: bigint | undefined
  const reading: Reading = {}
  for await (const chunk of chunks) {
    time = chunk.times.at(-1) ?? time
    for (const { name, values, validity } of chunk.columns) {
      const row = validity === undefined ? chunk.times.length - 1 : validity.lastIndexOf(1, chunk.times.length - 1)
      if (row >= 0) reading[name] = Number(values[row])
    }
  }
  return time === undefined ? undefined : { time, reading }
}
