/**
 * BACKUP and RESTORE, and the table that says what a backup has. Databases lose the prefix in a backup: `catalog`, and what a namespace's database has behind the
 * prefix. So a backup can be restored under any.
 */
import { everywhere, onCluster, type Place, remembered } from '../statements.ts'

/** Where one of the two parts of a backup lies: `points` or `catalog`. */
export interface Part {
  disk: string
  /** Of the backup, as a path in the disk. */
  name: string
  part: 'points' | 'catalog'
}

/** A table in a backup, and the one that takes its rows. */
export type Restored = readonly [from: string, to: string]

const CATALOG = 'catalog'
export const RECORD_COLUMNS = [
  ['backup', 'String'],
  ['made', 'Int64'],
  ['database', 'String'],
  ['table', 'String'],
] as const

/** A partition a backup, so that each has its own rows only; they are removed when it is made. */
export function createRecords(place: Place): string[] {
  const columns = RECORD_COLUMNS.map(([name, type]) => `${name} ${type}`).join(', ')
  const engine = `${everywhere(place, 'backups')} PARTITION BY backup ORDER BY (database, table)`
  return [`CREATE TABLE IF NOT EXISTS ${place.prefix}.backups${onCluster(place)} (${columns}) ENGINE = ${engine} ${remembered(place)}`]
}

/** @param backup an id made here. */
export function dropRecord(place: Place, backup: string): string {
  return `ALTER TABLE ${place.prefix}.backups${onCluster(place)} DROP PARTITION '${backup}'`
}

/** @param databases what names of namespaces' databases have behind the prefix, one at least. */
export function backupPoints(place: Place, to: Part, id: string, databases: readonly string[]): string {
  const what = databases.map((name) => `DATABASE ${place.prefix}_${name} AS ${name}`).join(', ')
  return `BACKUP ${what}${onCluster(place)} TO ${diskOf(to)} SETTINGS id = '${id}' ASYNC`
}

export function backupCatalog(place: Place, to: Part, id: string, backup: string): string {
  const { prefix } = place
  const what = `TABLE ${prefix}.catalog AS ${CATALOG}.catalog, TABLE ${prefix}.backups AS ${CATALOG}.backups PARTITION '${backup}'`
  return `BACKUP ${what}${onCluster(place)} TO ${diskOf(to)} SETTINGS id = '${id}' ASYNC`
}

/** Tables of the catalog in a backup, and those of a prefix. */
export function catalogTables({ prefix }: Place): Restored[] {
  return ['catalog', 'backups'].map((table) => [`${CATALOG}.${table}`, `${prefix}.${table}`])
}

/** Into tables that are there, and empty: a definition of a replicated table in the backup has the path of the one that it was made of. */
export function restoreTables(place: Place, from: Part, id: string, tables: readonly Restored[]): string {
  const what = tables.map(([table, to]) => `TABLE ${table} AS ${to}`).join(', ')
  return `RESTORE ${what}${onCluster(place)} FROM ${diskOf(from)} SETTINGS id = '${id}', allow_different_table_def = 1 ASYNC`
}

/** One replica restores; the others fetch it from there. Nothing to do without a cluster. */
export function awaitReplicas(place: Place, tables: readonly string[]): string[] {
  return place.cluster === undefined ? [] : tables.map((table) => `SYSTEM SYNC REPLICA${onCluster(place)} ${table}`)
}

/** What ClickHouse says of a BACKUP or RESTORE, on whichever server it was begun. */
export function statusOf({ cluster }: Place, id: string): string {
  const from = cluster === undefined ? 'system.backups' : `clusterAllReplicas('${cluster}', system.backups)`
  return `SELECT toString(status), error, toString(num_files), toString(total_size) FROM ${from} WHERE id = '${id}'`
}

/** Refused where there is one: of two that want it, one has it. */
export function claimDatabase(place: Place): string {
  return `CREATE DATABASE ${place.prefix}${onCluster(place)}`
}

export function dropDatabase(place: Place, database: string): string {
  return `DROP DATABASE IF EXISTS ${database}${onCluster(place)} SYNC`
}

function diskOf({ disk, name, part }: Part): string {
  return `Disk('${disk}', ${literal(`${name}/${part}`)})`
}

function literal(text: string): string {
  return `'${text.replaceAll(/[\\']/g, '\\$&')}'`
}
