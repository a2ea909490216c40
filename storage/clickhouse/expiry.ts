/**
 * Retention on the disk. Reads hide what is older than a measurement keeps; here whole days go, as partitions, which costs nothing and frees the disk at once. A
 * day of the shared table that some metrics keep is rewritten without the others, by one change of the table.
 *
 * Series without rows are given back before their days go: a node that ends in between leaves rows that are hidden, and the next pass finds them.
 */
import { type RetentionSettings, retentionCutoff } from '../common/retention.ts'
import { earlier, INT64_MIN } from '../common/time.ts'
import { type Life, PLACES } from './catalog.ts'
import type { Maintenance, Surroundings } from './maintenance.ts'
import { type Days, daysBefore, endsBefore, firstOfDay, isChanging, timesOfDay } from './measures.ts'
import { conditionOf, timeLiteral } from './rows-query.ts'
import { databaseOf, deleteFromDay, dropDays, LIVES_AT_ONCE, livesInGroups, ownTable } from './statements.ts'

const DAYS_AT_ONCE = 100

type Alone = (body: () => Promise<void>) => Promise<void>

export class Expiry {
  private readonly around: Surroundings
  private readonly maintenance: Maintenance
  /** Of lives, by number: the first time of the days before which series were looked for that have nothing else. */
  private readonly seen = new Map<number, bigint>()
  /** Of days of shared tables: which lives keep them, as they were looked through last. */
  private readonly looked = new Map<string, string>()

  constructor(around: Surroundings, maintenance: Maintenance) {
    this.around = around
    this.maintenance = maintenance
  }

  /** @param days of the namespace's tables. @param alone runs while nothing is written to it. @returns whether series were given back. */
  async pass(namespace: string, days: ReadonlyMap<string, Days>, alone: Alone): Promise<boolean> {
    const { catalog } = this.around.log
    // What can be restored is kept.
    const kept = new Map(catalog.livesOf(namespace).map((life) => [life, life.dropped ? INT64_MIN : firstOfDay(this.maintenance.keptFrom(life))]))
    const [own, narrow] = [new Map<Life, bigint>(), new Map<Life, bigint>()]
    for (const [life, from] of kept) {
      if (from > INT64_MIN && endsBefore(days.get(ownTable(life.number))?.oldest, from)) own.set(life, from)
      if ([...life.fields.values()].some((field) => field.narrow)) narrow.set(life, from)
    }
    let released = false
    const old = await this.withOldRows(namespace, own, narrow, days)
    if (old.size > 0) await this.maintenance.requireReplicas()
    for (const life of old) {
      await alone(async () => {
        if (catalog.find(namespace, life.name) === life) released = (await this.maintenance.releaseEmpty(life, kept.get(life) as bigint)) || released
      })
    }
    for (const [life, from] of kept) this.seen.set(life.number, from)
    for (const number of this.seen.keys()) if (!catalog.lives.has(number)) this.seen.delete(number)
    await this.dropOwn(namespace, own)
    await this.dropNarrow(namespace, narrow, days)
    return released
  }

  /** Those that have rows of days that they no longer keep, and were not looked at for it. */
  private async withOldRows(
    namespace: string,
    own: ReadonlyMap<Life, bigint>,
    narrow: ReadonlyMap<Life, bigint>,
    days: ReadonlyMap<string, Days>,
  ): Promise<Set<Life>> {
    const isNew = ([life, from]: [Life, bigint]): boolean => from > INT64_MIN && this.seen.get(life.number) !== from
    const found = new Set([...own].filter(isNew).map(([life]) => life))
    const shared = [...narrow].filter(isNew)
    let last = INT64_MIN
    for (const [, from] of shared) if (from > last) last = from
    if (!endsBefore(days.get('narrow')?.oldest, last)) return found
    const { client, place, log } = this.around
    const select = `SELECT DISTINCT life FROM ${databaseOf(place, namespace)}.narrow WHERE time < ${timeLiteral(last)}`
    const wanted = new Set(shared.map(([life]) => life))
    for await (const { columns } of client.blocks(select))
      for (const number of new BigUint64Array(columns[0].bytes.buffer)) {
        const life = log.catalog.lives.get(Number(number))
        if (life !== undefined && wanted.has(life)) found.add(life)
      }
    return found
  }

  private async dropOwn(namespace: string, own: ReadonlyMap<Life, bigint>): Promise<void> {
    if (own.size === 0) return
    const { client, place } = this.around
    let last = INT64_MIN
    for (const from of own.values()) if (from > last) last = from
    const days = await daysBefore(client, place, namespace, last)
    for (const [life, from] of own) {
      const table = ownTable(life.number)
      const gone = (days.get(table) ?? []).filter((day) => endsBefore(day, from))
      for (let at = 0; at < gone.length; at += DAYS_AT_ONCE) await client.command(dropDays(place, namespace, table, gone.slice(at, at + DAYS_AT_ONCE)))
    }
  }

  private async dropNarrow(namespace: string, narrow: ReadonlyMap<Life, bigint>, days: ReadonlyMap<string, Days>): Promise<void> {
    let last = INT64_MIN
    for (const from of narrow.values()) if (from > last) last = from
    if (!endsBefore(days.get('narrow')?.oldest, last)) return
    const { client, place, log, settings, limits } = this.around
    // A measurement that another node has begun meanwhile got no rows that are older than any retention keeps.
    let first = firstOfDay(firstKept(settings, (secs) => retentionCutoff(this.maintenance.clock, secs, limits)))
    for (const from of narrow.values()) first = earlier(first, from)
    const next = (log.catalog.sequence + 1) * PLACES
    const gone: bigint[] = []
    for (const day of (await daysBefore(client, place, namespace, last)).get('narrow') ?? []) {
      if (endsBefore(day, first)) gone.push(day)
      else await this.rewrite(namespace, day, narrow, next)
    }
    for (let at = 0; at < gone.length; at += DAYS_AT_ONCE) await client.command(dropDays(place, namespace, 'narrow', gone.slice(at, at + DAYS_AT_ONCE)))
    for (const day of gone) this.looked.delete(`${namespace} ${day}`)
  }

  /** Removes rows of the lives that do not keep a day. @param next lives from this number on are not known here. */
  private async rewrite(namespace: string, day: bigint, narrow: ReadonlyMap<Life, bigint>, next: number): Promise<void> {
    const { client, place } = this.around
    const kept = [...narrow].flatMap(([{ number }, from]) => (endsBefore(day, from) ? [] : [number])).sort((a, b) => a - b)
    const [key, keptBy] = [`${namespace} ${day}`, kept.join()]
    if (this.looked.get(key) === keptBy || (await isChanging(client, place, namespace, 'narrow'))) return
    for (const condition of conditions(kept, narrow, day, next)) {
      const select = `SELECT 1 FROM ${databaseOf(place, namespace)}.narrow WHERE ${conditionOf({ life: undefined, series: undefined, ...timesOfDay(day) }, false)} AND ${condition} LIMIT 1`
      let found = 0
      for await (const { rows } of client.blocks(select)) found += rows
      if (found > 0) await client.command(deleteFromDay(place, namespace, 'narrow', day, condition))
    }
    this.looked.set(key, keptBy)
  }
}

/** Of lives that do not keep a day, those that have ended included where those that keep it can be named. */
function* conditions(kept: readonly number[], narrow: ReadonlyMap<Life, bigint>, day: bigint, next: number): Generator<string> {
  if (kept.length <= LIVES_AT_ONCE) return yield `life < ${next}${kept.length === 0 ? '' : ` AND life NOT IN (${kept.join(', ')})`}`
  const gone = [...narrow].flatMap(([{ number }, from]) => (endsBefore(day, from) ? [number] : []))
  for (const lives of livesInGroups(gone)) yield `life IN (${lives})`
}

/** The first time that some measurement may keep, known here or not. */
function firstKept({ retentionSecs, retention }: RetentionSettings, cutoff: (secs: number) => bigint): bigint {
  return [retentionSecs, ...retention.values()].map(cutoff).reduce(earlier)
}
