/**
 * Writes, in the order of their calls: each is judged by the catalog in its turn, and its rows go into the blocks of their tables; the turn is over then, and the
 * write when its blocks are stored.
 *
 * Another node may drop the measurement, or give series back, while blocks are on their way. So the catalog is read once more before a write is acknowledged:
 * series that were given back are stored again, and rows of a measurement that has gone are refused.
 */
import type { WriteOptions, WriteResult } from 'svcdb'
import type { WriteBatch } from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'
import type { Limits } from '../common/limits.ts'
import type { NamespaceGate } from '../common/namespace-gate.ts'
import { type AdmissionCutoffs, staleSeries } from '../common/retention.ts'
import { Window } from '../common/window.ts'
import { admit, type Draft, type Part, type Verdicts } from './admission.ts'
import { isStored, type Life, type StoredField } from './catalog.ts'
import type { CatalogLog } from './catalog-log.ts'
import type { LocalSeries, Resolver } from './resolver.ts'
import { idOf } from './series-id.ts'
import type { SeriesStore } from './series-store.ts'
import type { Tables } from './tables.ts'

/** Refusals that a write's result carries. */
const KEPT_REJECTIONS = 16
const MAX_ATTEMPTS = 100

interface WriteContext {
  resolver: Resolver
  log: CatalogLog
  series: SeriesStore
  tables: Tables
  limits: Limits
  gate: NamespaceGate
  now(): number
  cutoffs(): AdmissionCutoffs
}

/** A write whose turn is over. */
interface Sent {
  /** When its rows are stored. */
  result: Promise<WriteResult>
}

/** Rows of a measurement that are under way. */
interface Stored {
  life: Life
  series: readonly LocalSeries[]
  /** Of the life, when they were looked for. */
  forgotten: number
  written: Promise<unknown>
}

/** The catalog has changed since a batch was judged. */
class Changed extends Error {}

export class Points {
  readonly windows = new Map<string, Window>()
  private readonly context: WriteContext

  constructor(context: WriteContext) {
    this.context = context
  }

  window(namespace: string): Window {
    const window = this.windows.get(namespace) ?? new Window(this.context.limits)
    this.windows.set(namespace, window)
    return window
  }

  /** Newest admitted time of each namespace. */
  get newest(): (bigint | undefined)[] {
    return [...this.windows.values()].map(({ newest }) => newest)
  }

  /** A row of the namespace has this time, in nanoseconds, whichever node has written it. */
  known(namespace: string, newest: bigint): void {
    const window = this.window(namespace)
    if (window.newest === undefined || newest > window.newest) window.newest = newest
  }

  /** Windows of namespaces without measurements: whoever has the name next may write any history. */
  forgetGone(): void {
    for (const namespace of this.windows.keys()) if (this.context.log.catalog.livesOf(namespace).length === 0) this.windows.delete(namespace)
  }

  /** @throws SvcError: nothing of the batch was stored. The batch may be used again when this has resolved. */
  async send(batch: WriteBatch, { backfill = false, nonFinite = false }: WriteOptions): Promise<Sent> {
    const { context } = this
    const window = this.window(batch.namespace)
    const bounds = window.open(context.now(), backfill, context.cutoffs())
    const { verdicts, sequence } = await this.judged(
      batch,
      (): Verdicts => admit(batch, { ...context, catalog: context.log.catalog, window, bounds, nonFinite }),
    )
    if (verdicts.newest !== undefined) window.advance(...verdicts.newest)
    if (verdicts.released) context.resolver.forget()
    // As they are now: with one that is dropped from here on the write is refused in the end, whatever else of it is stored.
    const drafts = verdicts.drafts.map((draft): [Draft, Life] => [draft, this.lifeOf(draft)])
    const forgotten = drafts.map(([, life]) => life.forgotten)
    if (verdicts.rows > 0) await this.storeSeries(drafts)
    const stored = drafts.map(([draft, life], i) => this.fill(batch, draft, life, forgotten[i]))
    for (const { written } of stored) written.catch(() => {})
    return { result: this.acknowledged(stored, verdicts, sequence) }
  }

  /** @returns also the sequence before it was looked which series are stored: what is given back later may be them. */
  private async judged(batch: WriteBatch, judge: () => Verdicts): Promise<{ verdicts: Verdicts; sequence: number }> {
    const { log } = this.context
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const before = log.catalog.sequence
      if (!(await this.look(batch))) continue
      const { sequence } = log.catalog
      const verdicts = judge()
      // What another node has changed may be why.
      if (verdicts.refused.length > 0 && attempt === 0) {
        await log.refresh()
        if (log.catalog.sequence !== sequence) continue
      }
      try {
        await log.append(({ sequence: now }) => {
          if (now !== sequence) throw new Changed()
          return verdicts.events
        })
        return { verdicts, sequence: before }
      } catch (error) {
        if (!(error instanceof Changed)) throw error
      }
    }
    throw new SvcError('OVERLOADED', 'cannot write: other nodes changed the catalog meanwhile, each time; send again')
  }

  /** Finds out which series of a batch are stored. */
  private async look(batch: WriteBatch): Promise<boolean> {
    const { resolver, log, series, tables } = this.context
    if (log.catalog.namespaces.has(batch.namespace)) await tables.ensureNamespace(batch.namespace)
    const unknown = new Map<Life, Set<LocalSeries>>()
    const seen = new Set<number>()
    for (const table of batch.tables) {
      for (let row = 0; row < table.rows; row++) {
        const number = table.series[row]
        if (seen.has(number)) continue
        seen.add(number)
        const one = resolver.byNumber(number)
        const life = log.catalog.find(batch.namespace, one.measurement.name)
        if (life === undefined || isStored(life, idOf(one, life.number).key)) continue
        const all = unknown.get(life) ?? new Set()
        unknown.set(life, all.add(one))
      }
    }
    for (const [life, all] of unknown) if (!(await series.look(life, all))) return false
    await series.loadTagKeys(batch.namespace, unknown.keys())
    return true
  }

  private async storeSeries(drafts: readonly [Draft, Life][]): Promise<void> {
    const { log, series, tables } = this.context
    for (const [draft, life] of drafts) {
      const fresh = draft.series.filter((one) => !life.known.has(idOf(one, life.number).key))
      if (fresh.length === 0) continue
      await tables.ensureNamespace(draft.namespace)
      const counted = fresh.filter((one) => isStored(life, idOf(one, life.number).key)).length
      const begun = fresh.length - counted
      // Before they are stored: a count that finds them is then right, and nothing is added to it.
      life.series += begun
      try {
        await series.store(life, fresh, log.catalog.sequence)
      } catch (error) {
        life.series = Math.max(0, life.series - begun)
        throw error
      }
    }
  }

  private lifeOf({ namespace, name }: Draft): Life {
    const life = this.context.log.catalog.find(namespace, name)
    if (life === undefined) throw staleSeries()
    return life
  }

  private fill(batch: WriteBatch, draft: Draft, life: Life, forgotten: number): Stored {
    const { tables, resolver } = this.context
    const written: Promise<void>[] = []
    for (const part of draft.parts.values()) {
      if (part.rows.length === 0) continue
      for (const narrow of [true, false]) {
        const columns = part.table.columns.flatMap((column) => {
          const field = life.fields.get(column.name)
          // Of another type all of its rows were refused.
          return field?.narrow === narrow && field.type === column.type ? [{ column, field }] : []
        })
        const rows = Int32Array.from(rowsWith(part, columns))
        if (rows.length === 0) continue
        const ids = Array.from(rows, (row) => idOf(resolver.byNumber(part.table.series[row]), life.number).bytes)
        const stored = tables.add(draft.namespace, narrow ? undefined : life, (block) => {
          block.begin({ rows, time: part.table.time, ids }, life.number)
          for (const { column, field } of columns) block.add(field, column, rows, batch.heap.bytes, decimalsOf(part, column, rows))
        })
        written.push(stored)
      }
    }
    return { life, series: draft.series, forgotten, written: Promise.all(written) }
  }

  private async acknowledged(stored: readonly Stored[], verdicts: Verdicts, sequence: number): Promise<WriteResult> {
    const { log, series } = this.context
    const failures = await Promise.all(stored.map(({ written }) => written.then(nothing, (error: unknown) => error)))
    // Why an insert failed says more than why the catalog could not be read.
    if (stored.length > 0) await log.refresh().catch((error: unknown) => failures.every((one) => one === undefined) && Promise.reject(error))
    // A table that another node has dropped fails an insert.
    const failed = failures.findIndex((error, i) => error !== undefined && !stored[i].life.dropped)
    if (failed >= 0) throw failures[failed]
    for (const { life, series: written, forgotten } of stored)
      if (!life.dropped && (life.released > sequence || life.forgotten > forgotten)) await series.store(life, written, log.catalog.sequence)
    // What has been stored is stored again with the rest.
    if (stored.some(({ life }) => life.dropped)) throw staleSeries()
    const { rows } = verdicts
    const refused = verdicts.refused.toSorted((a, b) => a.position - b.position)
    return { written: rows, rejected: refused.length, rejections: refused.slice(0, KEPT_REJECTIONS) }
  }
}

const nothing = (): undefined => undefined

/** Rows that have a value in one of the columns. */
function rowsWith({ rows }: Part, columns: readonly { column: { has(row: number): boolean }; field: StoredField }[]): number[] {
  if (columns.length === 0) return []
  return rows.filter((row) => columns.some(({ column }) => column.has(row)))
}

function decimalsOf(part: Part, column: Part['table']['columns'][number], rows: Int32Array): bigint[] | undefined {
  const values = part.decimals.get(column)
  if (values === undefined) return undefined
  if (rows.length === part.rows.length) return values
  const places = new Map(part.rows.map((row, i) => [row, i]))
  return Array.from(rows, (row) => values[places.get(row) as number])
}
