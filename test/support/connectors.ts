/** What tests of connectors look at: the rows that have come, and how the connectors are listed. */
import type { Storage } from 'svcdb'
import type { TestNode } from 'svcdb/testkit'

export interface Row {
  measurement: string
  tags: Record<string, string>
  /** Nanoseconds since the Unix epoch. */
  time: bigint
  fields: Record<string, unknown>
}

export interface Listed {
  name: string
  connector_type: string
  status: unknown
  metrics: Record<string, number | null>
}

/** All rows of a namespace, by measurement. */
export async function rowsOf({ storage }: { readonly storage: Storage }, namespace = ''): Promise<Row[]> {
  const rows: Row[] = []
  for (const { name: measurement } of await storage.measurements(namespace)) {
    for await (const { tags, times, columns } of storage.scan({ namespace, measurement })) {
      for (const [row, time] of times.entries()) {
        const fields = columns.flatMap(({ name, values, validity }) => (validity === undefined || validity[row] === 1 ? [[name, values[row]]] : []))
        rows.push({ measurement, tags, time, fields: Object.fromEntries(fields) })
      }
    }
  }
  return rows
}

export const listed = async (node: TestNode): Promise<Listed[]> => (await node.inject('/api/v1/connectors')).json().items
