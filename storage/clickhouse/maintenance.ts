/** What time brings about: drops end, retention removes, series without rows are given back, tables of lives that have ended go. Any node may do it, and twice. */
import type { RetentionHold } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import type { Limits } from '../common/limits.ts'
import { deadlinePassed, measurementCutoff, type RetentionSettings, retentionClock } from '../common/retention.ts'
import { INT64_MIN } from '../common/time.ts'
import { type CatalogEvent, type Life, ownFields, PLACES } from './catalog.ts'
import type { CatalogLog } from './catalog-log.ts'
import type { Client } from './client.ts'
import { conditionOf } from './rows-query.ts'
import { IDS_AT_ONCE, idAt, type SeriesStore } from './series-store.ts'
import { WITHOUT_THE_AWAY } from './settings.ts'
import { databaseOf, deleteRows, dropOwn, livesInGroups, ownTable, type Place } from './statements.ts'
import type { Tables } from './tables.ts'
import { topologyOf } from './topology.ts'

export interface Surroundings {
  client: Client
  place: Place
  log: CatalogLog
  tables: Tables
  series: SeriesStore
  settings: RetentionSettings
  limits: Limits
  now(): number
  /** Replicas that have a write before it is acknowledged, with a cluster. */
  quorum: number | 'auto'
  /** Newest admitted time of each namespace. */
  newest(): Iterable<bigint | undefined>
}

interface RowRange {
  start: bigint | undefined
  end: bigint | undefined
}

export class Maintenance {
  private readonly around: Surroundings
  private readonly holds = new Set<RetentionHold>()

  constructor(around: Surroundings) {
    this.around = around
  }

  get clock(): bigint {
    return retentionClock(this.around.now(), this.around.newest())
  }

  hold(hold: RetentionHold): () => void {
    // A function of its own a call: the same hold may be given twice.
    const own: RetentionHold = (namespace, measurement, cutoff) => hold(namespace, measurement, cutoff)
    this.holds.add(own)
    return () => void this.holds.delete(own)
  }

  /** First time that retention keeps; INT64_MIN = all. */
  keptFrom({ namespace, name }: Life): bigint {
    const { settings, limits } = this.around
    if (settings.shortestSecs === 0) return INT64_MIN
    return measurementCutoff(settings, limits, this.clock, namespace, name, this.holds)
  }

  /** Ends the drops that can no longer be undone. @returns whether there were any. */
  async endDrops(): Promise<boolean> {
    const { log } = this.around
    const passed = (): Life[] => log.catalog.pending.filter(({ deadline }) => deadlinePassed(deadline, this.clock)).map(({ life }) => life)
    const ended = passed()
    if (ended.length === 0) return false
    await log.append(() => passed().map(endOf))
    for (const life of ended) await this.removeLife(life)
    return true
  }

  /** Takes away what a life that has ended has left. */
  async removeLife(life: Life): Promise<void> {
    const { client, place, tables, series, log } = this.around
    await tables.ensureNamespace(life.namespace)
    for (const statement of dropOwn(place, life.namespace, life.number)) await client.command(statement)
    if ([...life.fields.values()].some(({ narrow }) => narrow)) await client.command(deleteRows(place, life.namespace, 'narrow', `life = ${life.number}`))
    await series.remove(life, undefined, log.catalog.sequence + 1)
    tables.forget(life)
  }

  /** Takes away what a node that had not heard of a drop has written since to lives that have ended. @param stored lives that have series, @param tables and tables that have rows. */
  async removeLeft(namespace: string, stored: Iterable<number>, tables: Iterable<string>): Promise<void> {
    const { client, place, log } = this.around
    const { catalog } = log
    const hasEnded = (life: number): boolean => !catalog.lives.has(life) && life < (catalog.sequence + 1) * PLACES
    for (const table of tables) {
      const life = Number(/^m_(\d+)$/.exec(table)?.[1] ?? Number.NaN)
      if (hasEnded(life)) for (const statement of dropOwn(place, namespace, life)) await client.command(statement)
    }
    for (const lives of livesInGroups([...stored].filter(hasEnded)))
      for (const table of ['narrow', 'series']) await client.command(deleteRows(place, namespace, table, `life IN (${lives})`))
  }

  /** Removes rows of a measurement. @param keys ids of series; undefined = all. */
  async deleteRows(life: Life, keys: readonly string[] | undefined, range: RowRange): Promise<void> {
    const { client, place, tables } = this.around
    await tables.ready(life)
    for (const group of keys === undefined ? [undefined] : groupsOf(keys)) {
      for (const [table, narrow] of this.tablesOf(life)) {
        const condition = conditionOf({ life, series: group, ...range }, narrow)
        await client.delete(deleteRows(place, life.namespace, table, condition))
        // It ends before that where a server of the cluster takes long, or is away.
        if (place.cluster !== undefined && (await this.hasRows(life.namespace, table, condition)))
          throw new SvcError(
            'WRITE_TIMEOUT',
            `cannot delete rows of measurement "${life.name}": ClickHouse has not done it in time; it goes on, look again later`,
          )
      }
    }
  }

  private async hasRows(namespace: string, table: string, condition: string): Promise<boolean> {
    const { client, place } = this.around
    for await (const { rows } of client.blocks(`SELECT 1 FROM ${databaseOf(place, namespace)}.${table} WHERE ${condition} LIMIT 1`)) if (rows > 0) return true
    return false
  }

  /**
   * Gives series back that rows may come to again. This is announced first: a write that is acknowledged before other nodes can know of it has its rows stored by
   * then, and one that is acknowledged later stores its series anew.
   * @param removed takes rows away and says whose series go with them, as they are after the announcement; undefined = all.
   */
  async releaseSeries(life: Life, removed: () => Promise<readonly string[] | undefined>): Promise<void> {
    const { log, series } = this.around
    await log.append(() =>
      log.catalog.lives.has(life.number) ? [{ kind: 'release', namespace: life.namespace, measurement: life.name, life: life.number }] : [],
    )
    const { released } = life
    const keys = await removed()
    await series.remove(life, keys, released)
    life.series -= keys?.length ?? life.series
  }

  /** Gives the series back that have no rows from a time on. @returns whether there were any. */
  async releaseEmpty(life: Life, from: bigint): Promise<boolean> {
    if ((await this.emptySeries(life, from)).length === 0) return false
    await this.releaseSeries(life, () => this.emptySeries(life, from))
    return true
  }

  /** @throws OVERLOADED when rows that were acknowledged may be on none of the servers that answer. */
  async requireReplicas(): Promise<void> {
    const { client, place, quorum } = this.around
    if (place.cluster === undefined) return
    for (const { number, replicas } of (await topologyOf(client, place)).shards) {
      const stored = quorum === 'auto' ? Math.floor(replicas.length / 2) + 1 : Math.max(1, quorum)
      const answered = replicas.filter(({ tables }) => tables !== undefined).length
      if (answered > replicas.length - stored) continue
      throw new SvcError('OVERLOADED', `cannot give series back: of shard ${number} ${answered} of ${replicas.length} replicas answer; it is tried again`)
    }
  }

  /** A replica may be behind: of the rows of all of them each counts. */
  private async emptySeries(life: Life, from: bigint): Promise<string[]> {
    const { client, place } = this.around
    const database = databaseOf(place, life.namespace)
    const all = (table: string): string =>
      place.cluster === undefined ? `${database}.${table}` : `clusterAllReplicas('${place.cluster}', ${database}.${table}_local)`
    const asked = { life, series: undefined, start: from, end: undefined }
    const rows = this.tablesOf(life).map(([table, narrow]) => `SELECT series FROM ${all(table)} WHERE ${conditionOf(asked, narrow)}`)
    const stored = `${database}.series`
    const select = `SELECT DISTINCT series FROM ${stored} WHERE life = ${life.number} AND series GLOBAL NOT IN (${rows.join(' UNION ALL ')})`
    const found: string[] = []
    for await (const { rows, columns } of client.blocks(select, { settings: [WITHOUT_THE_AWAY] }))
      for (let row = 0; row < rows; row++) found.push(idAt(columns[0].bytes, row))
    return found
  }

  private tablesOf(life: Life): [table: string, narrow: boolean][] {
    const narrow = [...life.fields.values()].some((field) => field.narrow)
    return [
      ...(narrow ? [['narrow', true] as [string, boolean]] : []),
      ...(ownFields(life).length > 0 ? [[ownTable(life.number), false] as [string, boolean]] : []),
    ]
  }
}

export function endOf({ namespace, name: measurement, number: life }: Life): CatalogEvent {
  return { kind: 'end', namespace, measurement, life }
}

function* groupsOf(keys: readonly string[]): Generator<readonly string[]> {
  for (let at = 0; at < keys.length; at += IDS_AT_ONCE) yield keys.slice(at, at + IDS_AT_ONCE)
}
