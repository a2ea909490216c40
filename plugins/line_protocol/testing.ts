/** For tests: what was stored. */
import type { Storage } from 'svcdb'

export interface Stored {
  tags: Record<string, string>
  /** Nanoseconds since the Unix epoch. */
  time: bigint
  values: Record<string, unknown>
}

/** Rows of a measurement, without the fields that a row has no value of. */
export async function storedIn({ storage }: { readonly storage: Storage }, measurement: string): Promise<Stored[]> {
  const rows: Stored[] = []
  for await (const { tags, times, columns } of storage.scan({ namespace: '', measurement })) {
    for (const [i, time] of times.entries()) {
      rows.push({ tags, time, values: Object.fromEntries(columns.filter(({ validity }) => validity?.[i] !== 0).map(({ name, values }) => [name, values[i]])) })
    }
  }
  return rows
}
