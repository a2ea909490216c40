/** One measurement as SQL text that stands behind FROM: sources that can matter, joined with the tags wanted. */

import { type Duck, sqlName, sqlText } from '../duckdb/duckdb.ts'
import type { ProcessPool } from '../engine-process/pool.ts'
import { SERIES_COLUMN, TIME_COLUMN } from '../memtable/memtable-source.ts'
import type { SegmentGate } from '../segment/verify.ts'
import { type TagColumn, type TagDictionaries, tagColumns, tagSource } from '../series/tag-source.ts'
import type { MeasurementDef } from '../threads/definitions.ts'
import type { WorkerConfig } from '../threads/messages.ts'
import type { SegmentMeta } from '../threads/segment-entry.ts'
import type { SnapshotPin } from '../threads/snapshot-pins.ts'
import type { Snapshot, WorkerState } from '../threads/state.ts'
import { type Maskable, masksAll, masksOf } from './masks.ts'
import type { SampleBlocks } from './samples/source-blocks.ts'
import { segmentsInRange, timesOf } from './segments-in-range.ts'
import { type Interval, type Source, unionSql } from './sources.ts'

export interface RelationContext {
  state: WorkerState
  duck: Duck
  dictionaries: TagDictionaries
  dataDir: string
  sampleBlocks: SampleBlocks
  /** A statement's plan that would have read what is not its own was refused. */
  refusedPlan?(namespace: string, reason: string): void
  /** Absent where every segment is trusted. */
  verifier?: SegmentGate
  /** How large a statement of SQL may be. */
  sqlLimits?: WorkerConfig['sqlLimits']
  /** SQL functions of plugins. */
  sqlFunctions?: WorkerConfig['sqlFunctions']
  /** Where statements run that are not bounded by the rows they read; without it, here. */
  processes?: ProcessPool
  /** Bytes of scratch space for one of these. */
  maxScratchBytes?: number
  /** Of the job: holds what is in its snapshots. */
  pin?: SnapshotPin
  /** About as many rows has the first slice of a statement that is run slice by slice (time-slices.ts); as many as are worth it when absent. */
  firstSliceRows?: number
}

export interface RelationArgs {
  measurement: MeasurementDef
  /** SQL names of `_time`, tags and fields, in the order wanted; all when absent. */
  columns?: readonly string[]
  /** Inclusive. */
  time: Interval
  /** Ascending; all series when absent. */
  series?: Int32Array
  /** SQL names of the tags that may come as ENUM. */
  enumTags?: readonly string[]
}

export interface Relation {
  sql: string
  /** Calls of row sources to remove once the statement is over. */
  calls: string[]
  merged: boolean
}

/** Sources of a measurement that can hold rows of the range and the series, oldest first. */
export function sourcesOf(state: WorkerState, snapshot: Snapshot, def: MeasurementDef, time: Interval, series: Int32Array | undefined): Source[] {
  const segments: Source[] = []
  const memtables: Source[] = []
  /** Adds the source unless deletes and retention leave nothing of it. */
  const keep = (list: Source[], source: Omit<Source, 'masks'>, extent: Pick<Maskable, 'sequence' | 'cleared'>): void => {
    const whole = { ...extent, minTime: source.minTime, maxTime: source.maxTime }
    const masks = masksOf(snapshot, def.id, whole, series)
    if (!masksAll(masks, whole)) list.push({ ...source, masks })
  }
  for (const id of def.tables) {
    // A table that went with a drop meanwhile was its measurement's own.
    const shared = (state.tables.get(id)?.measurement ?? def.id) !== def.id
    const measurement = shared ? def.id : undefined
    const table = snapshot.table(id)
    for (const segment of segmentsInRange(table.segments, time)) {
      const source = { ...timesOf(segment), segment, measurement, mixed: shared && isMixed(segment, def) }
      if (series !== undefined && !(series[series.length - 1] >= segment.minSeries && series[0] <= segment.maxSeries)) continue
      keep(segments, source, { sequence: segment.sequence, cleared: segment.cleared ?? 0 })
    }
    for (const part of table.memtables) {
      // A series keeps its rows in one table of a memtable; its links are those of this table when no other one can have them.
      const linked = def.tables.filter((other) => part.memtable.tables.has(other)).length === 1
      const source = {
        minTime: part.minTime,
        maxTime: part.maxTime,
        dirty: hull(part.dirty, part.duplicates),
        memtable: { part, linked, series: series ?? (shared ? state.series.of(def.id) : undefined) },
        measurement,
      }
      if (overlaps(source, time)) keep(memtables, source, { sequence: part.memtable.sequence, cleared: 0 })
    }
  }
  // Rows of a shared table are older than those of the measurement's own, though a merge with other measurements' may have given them a higher sequence.
  const position = ({ segment }: Source): number => def.tables.indexOf(segment!.table)
  segments.sort((a, b) => position(a) - position(b) || a.segment!.sequence - b.segment!.sequence)
  memtables.sort((a, b) => a.memtable!.part.memtable.sequence - b.memtable!.part.memtable.sequence)
  return [...segments, ...memtables]
}

/** Whether a segment of a shared table may have rows of other namespaces; those of a deleted one may have had the same name. */
function isMixed({ owners, rows }: SegmentMeta, { id, namespace }: MeasurementDef): boolean {
  if (owners === undefined) return namespace !== ''
  const own = Object.hasOwn(owners, namespace) ? owners[namespace] : undefined
  return own === undefined || own[0] !== rows || own[1] < id
}

function hull(a: Interval | null, b: Interval | null): Interval | null {
  if (a === null || b === null) return a ?? b
  const ends = [...a, ...b].sort((x, y) => (x < y ? -1 : 1))
  return [ends[0], ends[3]]
}

function overlaps(source: Pick<Source, 'minTime' | 'maxTime'>, [lo, hi]: Interval): boolean {
  return source.maxTime >= lo && source.minTime <= hi
}

/** @throws UnverifiedSegments */
export function relation(context: RelationContext, snapshot: Snapshot, args: RelationArgs): Relation {
  const { state, duck, dataDir } = context
  const { measurement, time } = args
  const tags = tagColumns(measurement, state.series.tagKeys(measurement.id))
  const wanted = args.columns ?? [TIME_COLUMN, ...tags.map((tag) => tag.column), ...measurement.fields.map((field) => field.column)]
  const fields = measurement.fields.filter((field) => wanted.includes(field.column))
  const wantedTags = tags.filter((tag) => wanted.includes(tag.column))
  const calls: string[] = []
  const none = args.series !== undefined && args.series.length === 0
  const sources = none ? [] : sourcesOf(state, snapshot, measurement, time, args.series)
  context.verifier?.require(sources)
  const union = unionSql({ duck, dataDir, sources, time, fields, series: none ? undefined : args.series, calls, sparesTexts: true, fence: true })
  const columns = wanted.map((name) => `${wantedTags.some((tag) => tag.column === name) ? 't' : 'p'}.${sqlName(name)}`).join(', ')
  if (wantedTags.length === 0) return { sql: `SELECT ${columns} FROM (${union.sql}) p`, calls, merged: union.merged }
  const call = tagCall(context, args, wantedTags)
  calls.push(call)
  return { sql: `SELECT ${columns} FROM (${union.sql}) p JOIN ${call} t ON t.${SERIES_COLUMN} = p.${SERIES_COLUMN}`, calls, merged: union.merged }
}

/**
 * The measurement in two parts that share `_series`: its rows without tags, and its series' tags. Undefined when there are few rows a series, so that
 * grouping them by series first would gain nothing.
 */
export function splitRelation(context: RelationContext, snapshot: Snapshot, args: RelationArgs): { rows: string; tags: string; calls: string[] } | undefined {
  const { state, duck, dataDir } = context
  const { measurement, time, series } = args
  if (series?.length === 0) return undefined
  const sources = sourcesOf(state, snapshot, measurement, time, series)
  const rowCount = sources.reduce((sum, { segment, memtable }) => sum + (segment?.rows ?? memtable?.part.rows ?? 0), 0)
  const shared = sources.some((source) => source.measurement !== undefined) // its rows are of other measurements as well
  if (shared || rowCount < EARLY_ROWS * (series ?? state.series.of(measurement.id)).length) return undefined
  const tags = tagColumns(measurement, state.series.tagKeys(measurement.id)).filter((tag) => args.columns?.includes(tag.column) ?? true)
  const fields = measurement.fields.filter((field) => args.columns?.includes(field.column) ?? true)
  if (tags.length === 0) return undefined
  context.verifier?.require(sources)
  const calls: string[] = []
  const union = unionSql({ duck, dataDir, sources, time, fields, series, calls, sparesTexts: true })
  const call = tagCall(context, args, tags)
  calls.push(call)
  const rows = [SERIES_COLUMN, TIME_COLUMN, ...fields.map((field) => field.column)].map(sqlName).join(', ')
  return {
    rows: `SELECT ${rows} FROM (${union.sql}) p`,
    tags: `SELECT ${[SERIES_COLUMN, ...tags.map((tag) => tag.column)].map(sqlName).join(', ')} FROM ${call} t`,
    calls,
  }
}

/** From here on rows are worth grouping by series before their tags are looked up. */
const EARLY_ROWS = 16

/** With few series their tags are written out: cheaper than asking this thread for them twice. */
const LISTED_SERIES = 16

function tagCall({ state, duck, dictionaries }: RelationContext, args: RelationArgs, tags: readonly TagColumn[]): string {
  const { measurement, series } = args
  if (series !== undefined && series.length > 0 && series.length <= LISTED_SERIES) return tagValues(state, series, tags)
  const enumerated = new Set(args.enumTags)
  return duck.addSource(
    tagSource(
      state.series,
      dictionaries,
      measurement.id,
      args.series ?? state.series.of(measurement.id),
      tags.map((tag) => ({ ...tag, enumerated: enumerated.has(tag.column) })),
    ),
  )
}

function tagValues(state: WorkerState, series: Int32Array, tags: readonly TagColumn[]): string {
  const rows = Array.from(series, (number) => {
    const own = state.series.tags(number)
    return `(${[`${number}::INTEGER`, ...tags.map(({ key }) => (Object.hasOwn(own, key) ? sqlText(own[key]) : 'NULL::VARCHAR'))].join(', ')})`
  })
  return `(SELECT * FROM (VALUES ${rows.join(', ')}) v(${[SERIES_COLUMN, ...tags.map(({ column }) => column)].map(sqlName).join(', ')}))`
}
