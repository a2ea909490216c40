/**
 * Admission: which rows of a write are stored, judged by the catalog as it is. Nothing is changed here: what the write needs of the catalog is in its result, and
 * when another node was first, the batch is judged again.
 *
 * The order of the checks is that of the other engines: series and their budgets, time, values, schema. A field comes into being with the first row that is
 * admitted with it; a decimal's scale is then the most fractional digits among the rows of this write that pass all other checks.
 */
import type { FieldInfo, Rejection } from 'svcdb'
import { type Column, type TableBatch, typeConflict, valueAt, type WriteBatch } from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'
import { rescale } from '../common/decimal.ts'
import type { Limits } from '../common/limits.ts'
import { checkFieldName, tooManyTags } from '../common/names.ts'
import type { NamespaceGate } from '../common/namespace-gate.ts'
import { ADMITTED, type Bounds, boundsOf, verdict, type Window } from '../common/window.ts'
import { beginsNarrow, type Catalog, type CatalogEvent, isStored, type Life } from './catalog.ts'
import type { LocalSeries, Resolver } from './resolver.ts'
import { idOf } from './series-id.ts'

export interface Judge {
  resolver: Resolver
  catalog: Catalog
  limits: Limits
  gate: NamespaceGate
  window: Window
  bounds: Bounds
  nonFinite: boolean
}

/** Rows of one measurement in one table of the batch. */
export interface Part {
  table: TableBatch
  /** Ascending. */
  rows: number[]
  /** Unscaled values at the field's scale, by place in `rows`; of decimal columns. */
  decimals: Map<Column, bigint[]>
}

/** What a write does to a measurement. */
export interface Draft {
  readonly namespace: string
  readonly name: string
  /** Undefined: it would begin with this write. */
  readonly life: Life | undefined
  /** Fields that begin with it. */
  readonly created: Map<string, FieldInfo>
  /** Fields that have a NaN or an infinity somewhere. */
  readonly infinite: Set<string>
  /** Tag keys that begin with it. */
  readonly tagKeys: Set<string>
  readonly parts: Map<TableBatch, Part>
  /** Series of rows that are admitted. */
  readonly series: LocalSeries[]
}

export interface Verdicts {
  drafts: Draft[]
  rows: number
  refused: Rejection[]
  /** What the catalog needs before the rows are written. */
  events: CatalogEvent[]
  /** Halves of the newest time admitted. */
  newest: [low: number, high: number] | undefined
  /** Series were named that are not stored, of rows that are not either. */
  released: boolean
}

export function admit(batch: WriteBatch, judge: Judge): Verdicts {
  const admission = new Admission(batch, judge)
  for (const table of batch.tables) for (let row = 0; row < table.rows; row++) admission.row(table, row)
  return admission.end()
}

class Admission {
  private readonly batch: WriteBatch
  private readonly judge: Judge
  private readonly drafts = new Map<string, Draft>()
  private readonly provisional = new Set<LocalSeries>()
  private readonly refused: Rejection[] = []
  /** Series before it; counted where new ones come. */
  private counted: { total: number; inNamespace: number } | undefined
  private readonly measurements: number
  private begun = 0
  /** Fields of all drafts. */
  private created = 0

  constructor(batch: WriteBatch, judge: Judge) {
    this.batch = batch
    this.judge = judge
    this.measurements = judge.catalog.count(batch.namespace)
  }

  row(table: TableBatch, row: number): void {
    const series = this.judge.resolver.byNumber(table.series[row])
    try {
      const draft = this.draft(series.measurement.name)
      this.requireSeries(draft, series)
      this.checkTime(draft, table, row)
      this.checkValues(draft, table, row)
      const fresh = this.provisional.has(series) ? this.freshTagKeys(draft, series) : []
      this.checkSchema(draft, table, row)
      for (const key of fresh) draft.tagKeys.add(key)
      const part: Part = draft.parts.get(table) ?? { table, rows: [], decimals: new Map() }
      draft.parts.set(table, part)
      part.rows.push(row)
    } catch (error) {
      this.refuse(table, row, error)
    }
  }

  end(): Verdicts {
    const events: CatalogEvent[] = []
    let rows = 0
    let newest: [low: number, high: number] | undefined
    for (const draft of this.drafts.values()) {
      // Numbers are found faster than objects.
      const numbers = new Set<number>()
      for (const part of draft.parts.values()) {
        this.bringToScale(draft, part)
        rows += part.rows.length
        for (const row of part.rows) {
          const { time, series } = part.table
          numbers.add(series[row])
          const [low, high] = [time[row * 2], time[row * 2 + 1]]
          if (newest === undefined || high > newest[1] || (high === newest[1] && low >>> 0 > newest[0] >>> 0)) newest = [low, high]
        }
      }
      for (const number of numbers) draft.series.push(this.judge.resolver.byNumber(number))
      events.push(...eventsOf(draft))
    }
    const stored = new Set(this.provisional.size === 0 ? [] : [...this.drafts.values()].flatMap(({ series }) => series))
    const released = [...this.provisional].some((series) => !stored.has(series))
    this.refused.sort((a, b) => a.position - b.position)
    return { drafts: [...this.drafts.values()].filter(({ series }) => series.length > 0), rows, refused: this.refused, events, newest, released }
  }

  private draft(name: string): Draft {
    const known = this.drafts.get(name)
    if (known !== undefined) return known
    const { namespace } = this.batch
    const life = this.judge.catalog.find(namespace, name)
    if (life === undefined) this.judge.gate.requireRoom(namespace, 'measurements', this.measurements + this.begun++)
    const draft: Draft = { namespace, name, life, created: new Map(), infinite: new Set(), tagKeys: new Set(), parts: new Map(), series: [] }
    this.drafts.set(name, draft)
    return draft
  }

  private requireSeries({ life }: Draft, series: LocalSeries): void {
    if (this.provisional.has(series)) return
    if (life !== undefined && isStored(life, idOf(series, life.number).key)) return
    const { limits, gate, catalog } = this.judge
    const { total, inNamespace } = (this.counted ??= { total: catalog.series, inNamespace: catalog.seriesOf(this.batch.namespace) })
    const fresh = this.provisional.size
    if (total + fresh >= limits.maxSeriesCardinality) {
      throw new SvcError(
        'CARDINALITY_EXCEEDED',
        `cannot start another series of measurement "${series.measurement.name}": max_series_cardinality of ${limits.maxSeriesCardinality} is reached; raise it, or send fewer distinct tag values`,
      )
    }
    gate.requireRoom(this.batch.namespace, 'series', inNamespace + fresh)
    this.provisional.add(series)
  }

  /** Those that its series would bring. */
  private freshTagKeys({ name, life, tagKeys }: Draft, { tags }: LocalSeries): string[] {
    const { maxTagsPerMeasurement: limit } = this.judge.limits
    const fresh = tags.filter((key, i) => i % 2 === 0 && life?.tagKeys?.has(key) !== true && !tagKeys.has(key))
    const total = (life?.tagKeys?.size ?? 0) + tagKeys.size + fresh.length
    if (fresh.length > 0 && total > limit) throw tooManyTags(name, fresh[0], total, limit)
    return fresh
  }

  private checkTime({ name }: Draft, table: TableBatch, row: number): void {
    const { window, bounds } = this.judge
    const [low, high] = [table.time[row * 2], table.time[row * 2 + 1]]
    if (verdict(bounds, low, high) === ADMITTED) return
    const own = boundsOf(bounds, name)
    const time = verdict(own, low, high)
    if (time !== ADMITTED) throw window.refusal(time, own, low, high)
  }

  private checkValues(draft: Draft, table: TableBatch, row: number): void {
    const { name: measurement } = draft
    const { limits, nonFinite } = this.judge
    let fields = 0
    for (const column of table.columns) {
      if (!column.has(row)) continue
      fields++
      const { name, type } = column
      const infinite = type === 'float64' && !Number.isFinite(column.f64[row])
      if (infinite && nonFinite) draft.infinite.add(name)
      else if (infinite) throw unfit(measurement, name, `${column.f64[row]} is not stored; leave the field out`)
      if (type === 'string' && column.i32[row * 2 + 1] > limits.maxStringBytes)
        throw unfit(measurement, name, `the text takes ${column.i32[row * 2 + 1]} bytes of UTF-8, max_string_bytes is ${limits.maxStringBytes}`)
    }
    if (fields === 0) throw new SvcError('INVALID_POINT', `cannot write point of measurement "${measurement}": it has no field`)
  }

  private checkSchema(draft: Draft, table: TableBatch, row: number): void {
    const { limits } = this.judge
    const { life, created } = draft
    const fresh: Column[] = []
    for (const column of table.columns) {
      if (!column.has(row)) continue
      const known = life?.fields.get(column.name)?.info ?? created.get(column.name)
      if (known === undefined) {
        checkFieldName(column.name, limits)
        fresh.push(column)
      } else if (known.type !== column.type) throw typeConflict(draft.name, column.name, known.type, column.type)
      else if (column.type === 'decimal' && !created.has(column.name)) this.atScale(draft, column, row, known.scale ?? 0)
    }
    const size = (life?.fields.size ?? 0) + created.size
    if (fresh.length > 0 && size + fresh.length > limits.maxFieldsPerMeasurement) {
      throw new SvcError(
        'INVALID_POINT',
        `cannot add field "${fresh[0].name}" to measurement "${draft.name}": it would have ${size + fresh.length} fields, max_fields_per_measurement is ${limits.maxFieldsPerMeasurement}`,
      )
    }
    if (fresh.length > 0) this.requireFields(draft, fresh)
    for (const { name, type } of fresh) created.set(name, type === 'decimal' ? { name, type, scale: 0 } : { name, type })
    if (created.size === 0) return
    for (const column of table.columns) {
      const field = column.scales === undefined ? undefined : created.get(column.name)
      if (field === undefined || !column.has(row)) continue
      const scale = column.scales?.[row] ?? 0
      if (scale > (field.scale ?? 0)) created.set(column.name, { ...field, scale })
    }
  }

  private requireFields(draft: Draft, fresh: readonly Column[]): void {
    const { catalog, gate } = this.judge
    const { namespace } = this.batch
    const [own, all] = [catalog.fieldsOf(namespace) + this.created, catalog.fields + this.created]
    if (fresh.length > gate.fieldsLeft(namespace, own, all)) throw gate.noFieldLeft(draft, fresh[0].name, own, all)
    this.created += fresh.length
  }

  /** Only now are the scales of new decimals known. */
  private bringToScale(draft: Draft, part: Part): void {
    const columns = part.table.columns.filter(({ type }) => type === 'decimal')
    if (columns.length === 0) return
    const kept: number[] = []
    const values = columns.map((): bigint[] => [])
    for (const row of part.rows) {
      try {
        const scaled = columns.map((column) => {
          if (!column.has(row)) return 0n
          const { scale = 0 } = (draft.life?.fields.get(column.name)?.info ?? draft.created.get(column.name)) as FieldInfo
          return this.atScale(draft, column, row, scale)
        })
        for (const [i, value] of scaled.entries()) values[i].push(value)
        kept.push(row)
      } catch (error) {
        this.refuse(part.table, row, error)
      }
    }
    part.rows = kept
    for (const [i, column] of columns.entries()) part.decimals.set(column, values[i])
  }

  private atScale({ name }: Draft, column: Column, row: number, scale: number): bigint {
    return rescale(valueAt(column, row, this.batch.heap.bytes) as bigint, column.scales?.[row] ?? 0, scale, name, column.name)
  }

  private refuse(table: TableBatch, row: number, error: unknown): void {
    if (!(error instanceof SvcError)) throw error
    this.refused.push({ code: error.code, message: error.message, position: table.position[row] })
  }
}

/** Of the fields that rows were admitted with. */
function eventsOf(draft: Draft): CatalogEvent[] {
  const begun = fieldsOf(draft)
  const { life, infinite, namespace, name: measurement } = draft
  if (life?.infinite === true || infinite.size === 0 || (life === undefined && begun.length === 0)) return begun
  // Those of the shared table are looked at one by one.
  const narrow = new Set(begun.flatMap((event) => (event.narrow === true && event.field !== undefined ? [event.field.name] : [])))
  const told = [...infinite].some((name) => life?.fields.get(name)?.narrow !== true && !narrow.has(name))
  return told ? [...begun, { kind: 'infinite', namespace, measurement, life: life?.number ?? 0 }] : begun
}

function fieldsOf({ namespace, name: measurement, life, created, parts }: Draft): CatalogEvent[] {
  if (created.size === 0) return []
  const used = new Set<string>()
  for (const { table, rows } of parts.values())
    for (const column of table.columns) if (created.has(column.name) && rows.some((row) => column.has(row))) used.add(column.name)
  const fields = [...created.values()].filter(({ name }) => used.has(name))
  return fields.length === 0 ? [] : fieldEvents(namespace, measurement, life, fields)
}

/** Events that give a measurement fields, and begin it when there is none of the name. */
export function fieldEvents(namespace: string, measurement: string, life: Life | undefined, fields: readonly FieldInfo[]): CatalogEvent[] {
  const narrow = life === undefined && beginsNarrow(fields)
  const events = fields.map((field): CatalogEvent => ({ kind: 'field', namespace, measurement, life: life?.number ?? 0, field, narrow }))
  return life === undefined ? [{ kind: 'create', namespace, measurement, life: 0 }, ...events] : events
}

function unfit(measurement: string, field: string, cause: string): SvcError {
  return new SvcError('INVALID_POINT', `cannot write field "${field}" of measurement "${measurement}": ${cause}`)
}
