/**
 * Names that configurations of the documented interface have for keys: those that are called otherwise here, which a schema says with `alias`,
 * and those that there is no need for. A file with such names runs, or is refused with what to write instead.
 */
import type { Tree } from './config.ts'
import type { Schema } from './section.ts'

/** For the schema of a key: `Type.Integer({ ...alsoNamed('server.stream_batch_size'), default: 10 })`. */
export function alsoNamed(alias: string | undefined): { alias?: string } {
  return alias === undefined ? {} : { alias }
}

export interface Renamed {
  /** As it is written: `server.grpc_addr`. */
  alias: string
  /** What it is: `grpc.addr`. */
  key: string
}

/** A section of the file and the schema of its keys. */
interface NamedSection {
  section: string
  schema: Schema
}

const NO_RETRIES = 'a broker that is away when the server starts is tried again every 5 s; leave the key out'
const LAST_VALUES = 'the last values of series are found without a cache; leave the key out'

const MET_IN_STATE = 'nodes meet in the state store that they share, and speak to no other; leave the key out, and name the store in [state]'

/** Why a documented key or section has no meaning here. */
export const NEEDLESS: Readonly<Record<string, string>> = {
  'server.connector_start_retries': NO_RETRIES,
  'server.connector_start_retry_backoff_ms': NO_RETRIES,
  'database.compaction_concurrency': 'segments are merged by one thread, which steps back behind ingest; see database.engine_niceness, compaction_fan_in',
  'database.max_query_result_bytes':
    "answers are sent while they are made and are not held; server.sql_max_rows bounds their rows, server.prom_max_result_bytes PromQL's answers, database.per_query_memory_limit what a query holds",
  'database.float_encoding': 'the encoding of floats is chosen for each column by its values; leave the key out',
  'database.zstd_dict_training': 'row groups are compressed whole and gain nothing from a dictionary; leave the key out, or raise database.zstd_level',
  'database.enable_last_value_cache': LAST_VALUES,
  'database.lvc_measurements': LAST_VALUES,
  'cluster.raft_bind_addr': MET_IN_STATE,
  'cluster.cluster_peers': MET_IN_STATE,
  'cluster.meta_addrs': MET_IN_STATE,
  'cluster.tls': MET_IN_STATE,
}

/** The aliases of a section's keys. */
export function aliasesOf({ section, schema }: NamedSection): Renamed[] {
  return Object.entries(schema.properties ?? {}).flatMap(([key, { alias }]) => (alias === undefined ? [] : [{ alias, key: `${section}.${key}` }]))
}

/** Moves what is written under an alias to its key. @param problems gets a line for each key that is given by both names. */
export function renameKeys(tree: Tree, sections: readonly NamedSection[], file: string, problems: string[]): Renamed[] {
  return sections.flatMap(aliasesOf).filter(({ alias, key }) => {
    const from = placeOf(tree, alias)
    if (from === undefined || !Object.hasOwn(from.table, from.name)) return false
    const value = from.table[from.name]
    delete from.table[from.name]
    removeEmptied(tree, alias)
    const to = placeOf(tree, key, true)
    if (to === undefined) return false // no table: the check of that section says so
    if (Object.hasOwn(to.table, to.name)) {
      problems.push(`cannot use "${alias}" beside "${key}" in ${file}: they are two names of one key; remove one`)
      return false
    }
    to.table[to.name] = value
    return true
  })
}

/** Takes keys that have no meaning out. @param problems gets a line for each. */
export function refuseNeedless(tree: Tree, file: string, problems: string[]): void {
  for (const [key, why] of Object.entries(NEEDLESS)) {
    const isSection = !key.includes('.')
    const at = isSection ? { table: tree, name: key } : placeOf(tree, key)
    if (at === undefined || !Object.hasOwn(at.table, at.name)) continue
    delete at.table[at.name]
    problems.push(`cannot use ${isSection ? `section "[${key}]"` : `"${key}"`} in ${file}: ${why}`)
  }
}

/** @param make whether tables are made where there are none. */
function placeOf(tree: Tree, path: string, make = false): { table: Tree; name: string } | undefined {
  const sections = path.split('.')
  const name = sections.pop() as string
  let table = tree
  for (const section of sections) {
    if (make && table[section] === undefined) table[section] = {}
    const below = table[section]
    if (typeof below !== 'object' || below === null || Array.isArray(below)) return undefined
    table = below as Tree
  }
  return { table, name }
}

/** A table within a section that has nothing left but what is at home elsewhere is none. */
function removeEmptied(tree: Tree, alias: string): void {
  const table = alias.slice(0, alias.lastIndexOf('.'))
  const place = table.includes('.') ? placeOf(tree, table) : undefined
  if (place !== undefined && Object.keys(place.table[place.name] as Tree).length === 0) delete place.table[place.name]
}
