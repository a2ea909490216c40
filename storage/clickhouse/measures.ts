/** What ClickHouse knows of the points of a namespace as a whole. */
import { earlier, INT64_MAX, INT64_MIN, later } from '../common/time.ts'
import type { Life } from './catalog.ts'
import type { Client } from './client.ts'
import { timeLiteral } from './rows-query.ts'
import { WITHOUT_THE_AWAY } from './settings.ts'
import { databaseOf, livesInGroups, ownTable, type Place } from './statements.ts'

const DAY_NS = 86_400_000_000_000n
/** Of what the servers say of themselves. */
const SYSTEM = { settings: [WITHOUT_THE_AWAY] }
const PARTS_TABLE = `replaceRegexpOne(table, '_local$', '')`

/** The first and the last day that a table has rows of, as its partitions are called: whole days since the Unix epoch, rounded towards it. */
export interface Days {
  oldest: bigint
  newest: bigint
}

/** Of each table of points in a namespace that has rows. */
export async function daysOf(client: Client, place: Place, namespace: string): Promise<Map<string, Days>> {
  const select = `SELECT ${PARTS_TABLE} AS name, min(toInt64(partition)), max(toInt64(partition)) FROM ${partsOf(place)} WHERE ${wantedParts(place, namespace)} GROUP BY name`
  const days = new Map<string, Days>()
  for await (const { rows, columns } of client.blocks(select, SYSTEM)) {
    const [oldest, newest] = columns.slice(1).map(({ bytes }) => new BigInt64Array(bytes.buffer))
    for (let row = 0; row < rows; row++) days.set(Buffer.from(columns[0].texts?.[row] ?? []).toString(), { oldest: oldest[row], newest: newest[row] })
  }
  return days
}

/** Whether all times of a day are before a time. @param day undefined = there is none. */
export function endsBefore(day: bigint | undefined, time: bigint): boolean {
  if (day === undefined) return false
  return day < 0n ? day * DAY_NS < time : (day + 1n) * DAY_NS <= time
}

export function timesOfDay(day: bigint): { start: bigint; end: bigint } {
  const [start, end] = [day > 0n ? day * DAY_NS : (day - 1n) * DAY_NS + 1n, day < 0n ? day * DAY_NS + 1n : (day + 1n) * DAY_NS]
  return { start: later(start, INT64_MIN), end: earlier(end, INT64_MAX) }
}

/** The latest time that is not after a time and is the first of a day. */
export function firstOfDay(time: bigint): bigint {
  if (time === INT64_MIN) return time
  if (time >= DAY_NS) return (time / DAY_NS) * DAY_NS
  // Division rounds up below zero, and a day before 1970 has its last time's number.
  const before = time > 0n ? 0n : time / DAY_NS - 1n
  const day = before < -1n ? before : -1n
  return day * DAY_NS + 1n
}

/** Days that are over before a time, of each table of points that has rows of them. */
export async function daysBefore(client: Client, place: Place, namespace: string, time: bigint): Promise<Map<string, bigint[]>> {
  const days = new Map<string, bigint[]>()
  const select = `SELECT DISTINCT ${PARTS_TABLE} AS name, toInt64(partition) AS day FROM ${partsOf(place)} WHERE ${wantedParts(place, namespace)} AND day < ${time / DAY_NS} ORDER BY name, day`
  for await (const { rows, columns } of client.blocks(select, SYSTEM)) {
    const numbers = new BigInt64Array(columns[1].bytes.buffer)
    for (let row = 0; row < rows; row++) {
      const name = Buffer.from(columns[0].texts?.[row] ?? []).toString()
      const all = days.get(name) ?? []
      days.set(name, all)
      if (endsBefore(numbers[row], time)) all.push(numbers[row])
    }
  }
  return days
}

/** Whether a change of a table's rows is under way. */
export async function isChanging(client: Client, place: Place, namespace: string, table: string): Promise<boolean> {
  const tables = `table IN ('${table}', '${table}_local')`
  const select = `SELECT 1 FROM ${onAll(place, 'system.mutations')} WHERE database = '${databaseOf(place, namespace)}' AND ${tables} AND NOT is_done LIMIT 1`
  for await (const { rows } of client.blocks(select, SYSTEM)) if (rows > 0) return true
  return false
}

/** Newest time of all points, those of drops that can be undone included; undefined when there are none. Reads the newest day only, unless all of it was deleted. */
export async function newestTime(client: Client, place: Place, namespace: string, days: ReadonlyMap<string, Days>): Promise<bigint | undefined> {
  let newest: bigint | undefined
  for (const day of days.values()) if (newest === undefined || day.newest > newest) newest = day.newest
  if (newest === undefined) return undefined
  const found = newest > 0n ? await newestFrom(client, place, namespace, newest * DAY_NS) : undefined
  return found ?? newestFrom(client, place, namespace, undefined)
}

async function newestFrom(client: Client, place: Place, namespace: string, from: bigint | undefined): Promise<bigint | undefined> {
  const where = from === undefined ? '' : ` WHERE time >= ${timeLiteral(from)}`
  const select = `SELECT toUInt64(count()), max(toUnixTimestamp64Nano(time)) FROM merge('${databaseOf(place, namespace)}', '^(narrow|m_[0-9]+)$')${where}`
  for await (const { columns } of client.blocks(select)) {
    const [count, newest] = columns
    return new BigUint64Array(count.bytes.buffer)[0] === 0n ? undefined : new BigInt64Array(newest.bytes.buffer)[0]
  }
  return undefined
}

function partsOf(place: Place): string {
  return onAll(place, 'system.parts')
}

function onAll({ cluster }: Place, table: string): string {
  return cluster === undefined ? table : `clusterAllReplicas('${cluster}', ${table})`
}

function wantedParts(place: Place, namespace: string): string {
  return `active AND rows > 0 AND database = '${databaseOf(place, namespace)}' AND match(table, '^(narrow|m_[0-9]+)(_local)?$')`
}

/** Bytes on the disks of the tables of measurements; of the shared table by their part of its rows. */
export async function namespaceBytes(client: Client, place: Place, namespace: string, lives: readonly Life[]): Promise<number> {
  const database = databaseOf(place, namespace)
  const select = `SELECT table, toUInt64(sum(bytes_on_disk)), toUInt64(sum(rows)) FROM ${partsOf(place)} WHERE active AND database = '${database}' GROUP BY table`
  const wanted = new Set(lives.flatMap(({ number }) => [ownTable(number), `${ownTable(number)}_local`]))
  let bytes = 0
  let narrow = { bytes: 0, rows: 0 }
  for await (const { rows, columns } of client.blocks(select, SYSTEM)) {
    const [sizes, counts] = columns.slice(1).map((column) => new BigUint64Array(column.bytes.buffer))
    for (let row = 0; row < rows; row++) {
      const table = Buffer.from(columns[0].texts?.[row] ?? []).toString()
      if (wanted.has(table)) bytes += Number(sizes[row])
      if (table === 'narrow' || table === 'narrow_local') narrow = { bytes: Number(sizes[row]), rows: Number(counts[row]) }
    }
  }
  if (narrow.rows === 0) return bytes
  let own = 0
  for (const ids of livesInGroups(lives.map(({ number }) => number)))
    for await (const { columns } of client.blocks(`SELECT toUInt64(count()) FROM ${database}.narrow WHERE life IN (${ids})`))
      own += Number(new BigUint64Array(columns[0].bytes.buffer)[0])
  return bytes + Math.round((narrow.bytes * own) / Math.max(narrow.rows, own))
}
