/** What ClickHouse knows of the points of a namespace as a whole. */
import type { Life } from './catalog.ts'
import type { Client } from './client.ts'
import { databaseOf, ownTable, type Place } from './statements.ts'

/** Newest time of all points, those of drops that can be undone included; undefined when there are none. */
export async function newestTime(client: Client, place: Place, namespace: string): Promise<bigint | undefined> {
  const select = `SELECT toUInt64(count()), max(toUnixTimestamp64Nano(time)) FROM merge('${databaseOf(place, namespace)}', '^(narrow|m_[0-9]+)$')`
  for await (const { columns } of client.blocks(select)) {
    const [count, newest] = columns
    return new BigUint64Array(count.bytes.buffer)[0] === 0n ? undefined : new BigInt64Array(newest.bytes.buffer)[0]
  }
  return undefined
}

/** Bytes on the disks of the tables of measurements; of the shared table by their part of its rows. */
export async function namespaceBytes(client: Client, place: Place, namespace: string, lives: readonly Life[]): Promise<number> {
  const database = databaseOf(place, namespace)
  const from = place.cluster === undefined ? 'system.parts' : `clusterAllReplicas('${place.cluster}', system.parts)`
  const select = `SELECT table, toUInt64(sum(bytes_on_disk)), toUInt64(sum(rows)) FROM ${from} WHERE active AND database = '${database}' GROUP BY table`
  const wanted = new Set(lives.flatMap(({ number }) => [ownTable(number), `${ownTable(number)}_local`]))
  let bytes = 0
  let narrow = { bytes: 0, rows: 0 }
  for await (const { rows, columns } of client.blocks(select)) {
    const [sizes, counts] = columns.slice(1).map((column) => new BigUint64Array(column.bytes.buffer))
    for (let row = 0; row < rows; row++) {
      const table = Buffer.from(columns[0].texts?.[row] ?? []).toString()
      if (wanted.has(table)) bytes += Number(sizes[row])
      if (table === 'narrow' || table === 'narrow_local') narrow = { bytes: Number(sizes[row]), rows: Number(counts[row]) }
    }
  }
  if (narrow.rows === 0) return bytes
  const ids = lives.map(({ number }) => number).join(', ')
  for await (const { columns } of client.blocks(`SELECT toUInt64(count()) FROM ${database}.narrow WHERE life IN (${ids})`)) {
    const own = Number(new BigUint64Array(columns[0].bytes.buffer)[0])
    bytes += Math.round((narrow.bytes * own) / Math.max(narrow.rows, own))
  }
  return bytes
}
