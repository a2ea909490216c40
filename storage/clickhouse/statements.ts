/**
 * Definitions of databases and tables. Every name in them is made here: texts of callers name nothing. All may be run again, by several nodes at once.
 *
 * With a cluster each table is one of replicas on every shard, `<table>_local`, and one over them that is written to and read from; rows are sharded by series.
 * The catalog is on every server, for its order is one.
 */
import { createHash } from 'node:crypto'
import type { FieldType } from 'svcdb'

export interface Place {
  prefix: string
  cluster: string | undefined
}

/** A column of a measurement's own table. */
export interface ColumnDefinition {
  /** Among the fields of its measurement. */
  index: number
  type: FieldType
  scale: number
}

/** Lives that are named in one statement: with all the digits that a number may have they stay below max_query_size. */
export const LIVES_AT_ONCE = 10_000

/** Found by measuring, see docs/decisions/087-points-in-clickhouse.md. */
const TIME = "DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1))"
const SERIES = 'UInt128 CODEC(ZSTD(1))'
const TYPES: Record<Exclude<FieldType, 'decimal'>, [wire: string, codec: string]> = {
  float64: ['Float64', 'ZSTD(1)'],
  int64: ['Int64', 'T64, ZSTD(1)'],
  uint64: ['UInt64', 'T64, ZSTD(1)'],
  bool: ['UInt8', 'ZSTD(1)'],
  string: ['String', 'ZSTD(1)'],
  histogram: ['String', 'ZSTD(1)'],
}
/** Whole days since the Unix epoch: DateTime64 is signed, and days outside of the calendar's range would all be one. */
const DAY = 'PARTITION BY intDiv(toUnixTimestamp64Nano(time), 86400000000000)'
/** That DateTime has. */
const LAST_SECOND = 2 ** 32 - 1
/** Inserts of one table that are remembered by their token; with replicas for so many seconds. */
const REMEMBERED = 10_000
const REMEMBERED_SECS = 604_800

export const CATALOG_COLUMNS = [
  ['sequence', 'UInt64'],
  ['append', 'String'],
  ['position', 'UInt64'],
  ['kind', 'String'],
  ['namespace', 'String'],
  ['measurement', 'String'],
  ['life', 'UInt64'],
  ['field', 'String'],
  ['type', 'String'],
  ['scale', 'UInt64'],
  ['narrow', 'UInt64'],
  ['deadline', 'Int64'],
] as const

export function databaseOf({ prefix }: Place, namespace: string): string {
  return `${prefix}_${namespacePart(namespace)}`
}

/** What the name of a namespace's database has behind the prefix. */
export function namespacePart(namespace: string): string {
  if (/^[a-z0-9]{1,40}$/.test(namespace)) return `n_${namespace}`
  return `x_${createHash('sha256').update(namespace).digest('hex').slice(0, 32)}`
}

export const ownTable = (life: number): string => `m_${life}`
export const columnName = (index: number): string => `f${index}`
/** The type of values in blocks, within Nullable. */
export const wireType = (type: FieldType, scale: number): string => (type === 'decimal' ? `Decimal(38, ${scale})` : TYPES[type][0])

export function createCatalog(place: Place): string[] {
  const columns = CATALOG_COLUMNS.map(([name, type]) => `${name} ${type}`).join(', ')
  return [
    `CREATE DATABASE IF NOT EXISTS ${place.prefix}${onCluster(place)}`,
    `CREATE TABLE IF NOT EXISTS ${place.prefix}.catalog${onCluster(place)} (${columns}) ENGINE = ${everywhere(place, 'catalog')} ORDER BY (sequence, position) ${remembered(place)}`,
  ]
}

/** What a table is that every server has whole. */
export function everywhere({ prefix, cluster }: Place, table: string): string {
  return cluster === undefined ? 'MergeTree' : `ReplicatedMergeTree('/clickhouse/svc/${prefix}/${table}', '{shard}-{replica}')`
}

export function createNamespace(place: Place, namespace: string): string[] {
  const database = databaseOf(place, namespace)
  const tags = 'tags Map(LowCardinality(String), LowCardinality(String)) CODEC(ZSTD(1))'
  const series = `life UInt64 CODEC(Delta, ZSTD(1)), series ${SERIES}, since UInt64 CODEC(Delta, ZSTD(1)), ${tags}`
  const narrow = `life UInt64 CODEC(Delta, ZSTD(1)), series ${SERIES}, time ${TIME}, value Float64 CODEC(${TYPES.float64[1]})`
  return [
    `CREATE DATABASE IF NOT EXISTS ${database}${onCluster(place)}`,
    ...createTable(place, database, 'series', series, 'ReplacingMergeTree', ['since'], 'ORDER BY (life, series)'),
    ...createTable(place, database, 'narrow', narrow, 'ReplacingMergeTree', [], `${DAY} ORDER BY (life, series, time)`),
  ]
}

/** A measurement's own table. Rows of the same series and time become one: of each field the last value that is there. */
export function createOwn(place: Place, namespace: string, life: number, fields: readonly ColumnDefinition[]): string[] {
  const columns = [`series ${SERIES}`, `time ${TIME}`, ...fields.map(definitionOf)].join(', ')
  return createTable(place, databaseOf(place, namespace), ownTable(life), columns, 'CoalescingMergeTree', [], `${DAY} ORDER BY (series, time)`)
}

export function addColumns(place: Place, namespace: string, life: number, fields: readonly ColumnDefinition[]): string[] {
  const added = fields.map((field) => `ADD COLUMN IF NOT EXISTS ${definitionOf(field)}`).join(', ')
  const database = databaseOf(place, namespace)
  // The one over the shards last: it must not name what they lack.
  return tablesOf(place, ownTable(life)).map((table) => `ALTER TABLE ${database}.${table}${onCluster(place)} ${added}`)
}

export function dropOwn(place: Place, namespace: string, life: number): string[] {
  const database = databaseOf(place, namespace)
  return tablesOf(place, ownTable(life))
    .toReversed()
    .map((table) => `DROP TABLE IF EXISTS ${database}.${table}${onCluster(place)} SYNC`)
}

/** @param condition of names and numbers made here. */
export function deleteRows(place: Place, namespace: string, table: string, condition: string): string {
  const [local] = tablesOf(place, table)
  return `DELETE FROM ${databaseOf(place, namespace)}.${local}${onCluster(place)} WHERE ${condition}`
}

/** @param days as the partitions are called. */
export function dropDays(place: Place, namespace: string, table: string, days: readonly bigint[]): string {
  const [local] = tablesOf(place, table)
  return `ALTER TABLE ${databaseOf(place, namespace)}.${local}${onCluster(place)} ${days.map((day) => `DROP PARTITION ${day}`).join(', ')}`
}

/** Rewrites a day without the rows that meet a condition of names and numbers made here; goes on when the statement has ended. */
export function deleteFromDay(place: Place, namespace: string, table: string, day: bigint, condition: string): string {
  const [local] = tablesOf(place, table)
  return `ALTER TABLE ${databaseOf(place, namespace)}.${local}${onCluster(place)} DELETE IN PARTITION ${day} WHERE ${condition}`
}

/** @param policy has all disks that the table is on. */
export function setPolicy(place: Place, namespace: string, table: string, policy: string): string {
  return `ALTER TABLE ${databaseOf(place, namespace)}.${table}${onCluster(place)} MODIFY SETTING storage_policy = '${policy}'`
}

/**
 * When rows move to another volume: a part at a time, by its newest time; undefined = never. It is a matter of disks alone, so the server's own clock is good enough.
 * Times that its calendar does not have count as the nearest that it has.
 */
export function setColdVolume(place: Place, namespace: string, table: string, cold: { volume: string; afterSecs: number } | undefined): string {
  const alter = `ALTER TABLE ${databaseOf(place, namespace)}.${table}${onCluster(place)}`
  if (cold === undefined) return `${alter} REMOVE TTL`
  const time = `toDateTime(greatest(0, least(intDiv(toUnixTimestamp64Nano(time), 1000000000), ${LAST_SECOND - cold.afterSecs})))`
  return `${alter} MODIFY TTL ${time} + toIntervalSecond(${cold.afterSecs}) TO VOLUME '${cold.volume}'`
}

function createTable(place: Place, database: string, name: string, columns: string, engine: string, versions: readonly string[], order: string): string[] {
  if (place.cluster === undefined) {
    return [`CREATE TABLE IF NOT EXISTS ${database}.${name} (${columns}) ENGINE = ${engine}(${versions.join(', ')}) ${order} ${remembered(place)}`]
  }
  const path = `'/clickhouse/tables/{shard}/${database}/${name}', '{replica}'`
  return [
    `CREATE TABLE IF NOT EXISTS ${database}.${name}_local${onCluster(place)} (${columns}) ENGINE = Replicated${engine}(${[path, ...versions].join(', ')}) ${order} ${remembered(place)}`,
    `CREATE TABLE IF NOT EXISTS ${database}.${name}${onCluster(place)} AS ${database}.${name}_local ENGINE = Distributed('${place.cluster}', '${database}', '${name}_local', cityHash64(series))`,
  ]
}

/** The tables of that name: with a cluster those of the shards, and the one over them. */
export function tablesOf({ cluster }: Place, table: string): [string, ...string[]] {
  return cluster === undefined ? [table] : [`${table}_local`, table]
}

export function remembered({ cluster }: Place): string {
  if (cluster === undefined) return `SETTINGS non_replicated_deduplication_window = ${REMEMBERED}`
  return `SETTINGS replicated_deduplication_window = ${REMEMBERED}, replicated_deduplication_window_seconds = ${REMEMBERED_SECS}`
}

/** Lists of lives for statements of bounded length. */
export function* livesInGroups(lives: readonly number[]): Generator<string> {
  for (let at = 0; at < lives.length; at += LIVES_AT_ONCE) yield lives.slice(at, at + LIVES_AT_ONCE).join(', ')
}

function definitionOf({ index, type, scale }: ColumnDefinition): string {
  const codec = type === 'decimal' ? 'ZSTD(1)' : TYPES[type][1]
  return `${columnName(index)} Nullable(${wireType(type, scale)}) CODEC(${codec})`
}

export function onCluster({ cluster }: Place): string {
  return cluster === undefined ? '' : ` ON CLUSTER '${cluster}'`
}
