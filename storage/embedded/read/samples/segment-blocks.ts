/**
 * Segment rows as blocks. Mostly they come out of the file's pages (segment-pages.ts). What these do not tell (encrypted columns, decimals, histograms)
 * DuckDB reads: a measurement's part of a segment is divided by series number into blocks of about SAMPLE_BLOCK_ROWS rows. What a query lacks is read
 * in one statement a segment, and kept.
 */
import { SvcError } from 'svcdb/lib/errors'
import { streamSql } from '../../duckdb/stream.ts'
import { SERIES_COLUMN, TIME_COLUMN } from '../../memtable/memtable-source.ts'
import { MEASUREMENT_COLUMN } from '../../segment/segment-source.ts'
import type { FieldDef } from '../../threads/definitions.ts'
import type { SegmentMeta } from '../../threads/segment-entry.ts'
import { contains } from '../masks.ts'
import type { RelationContext } from '../relation.ts'
import { rawColumn, readSql, type Source, segmentPathOf, timeConditions } from '../sources.ts'
import { type BlockCache, OwnedBlocks } from './block-cache.ts'
import { type OwnedSeries, OwnedSeriesBuilder, seriesOfMeasurement } from './owned-series.ts'
import type { PackedBlock } from './packed-block.ts'
import type { PackedFiles } from './packed-files.ts'
import type { RowBlock } from './row-block.ts'
import { type SampleBlock, SampleBlockBuilder } from './sample-block.ts'
import type { Scratch } from './scratch.ts'
import { within } from './search.ts'
import { SegmentPages } from './segment-pages.ts'

/** Rows of a block, about: some row groups, so that reading one is little work and a query's blocks are few. */
const SAMPLE_BLOCK_ROWS = 131_072
/** A series with more rows than this in a segment is read by time instead, and not kept. */
const LONG_SERIES = 4 * SAMPLE_BLOCK_ROWS
/** What a sample of a block takes, about. */
const SAMPLE_BYTES = 16
/** Block numbers of one field lie below this. */
const FIELD_SPAN = 2 ** 32
const NO_SERIES = -1

/** What does not change from source to source of a request. */
export interface ReadScope {
  context: RelationContext
  measurement: number
  field: FieldDef
  /** Nanoseconds, inclusive: rows outside may be left out. */
  range: readonly [bigint, bigint]
  /** All of the measurement's series. */
  all: Int32Array
  /** Samples that may be read of one series. */
  limit: number
  signal: AbortSignal | undefined
  /** What the cache tells questions apart by. */
  question: number
  /** For blocks that are not kept; they are void once it is released. */
  scratch?: Scratch
}

/** Of readers that take packed blocks, too. */
export interface AnyScope extends ReadScope {
  /** Blocks may be packed; true: they are to be, since more is read than has room decoded. */
  packed?: boolean
  /** All samples are read: what is not kept is not worth packing. */
  whole?: boolean
}

/** Packed ones are for scopes that say so. */
export type AnyBlock = SampleBlock | PackedBlock

/** How a measurement's part of a segment is divided: block b has the series numbers from b << shift on. */
interface SegmentLayout {
  owned: OwnedBlocks
  shift: number
  /** Rows a series, about. */
  density: number
  /** Rows of a block, about. */
  rows: number
}

export class SegmentBlocks {
  private readonly cache: BlockCache
  private readonly pages: SegmentPages
  /** By measurement; readers may hold segments that are gone. */
  private readonly layouts = new WeakMap<SegmentMeta, Map<number, SegmentLayout>>()
  /** Of all measurements of a segment: of a shared table thousands may be asked about, one after the other. */
  private readonly series = new WeakMap<SegmentMeta, OwnedSeries>()

  constructor(cache: BlockCache, files: PackedFiles | undefined) {
    this.cache = cache
    this.pages = new SegmentPages(cache, files)
  }

  /** Segments whose pages could not be read, and that DuckDB has read instead. */
  get refused(): number {
    return this.pages.refused
  }

  /** The blocks of a source that may hold series of `series` (ascending), by series number, then time. */
  of(source: Source, series: Int32Array, scope: AnyScope): AnyBlock[] | Promise<AnyBlock[]> {
    const { field } = scope
    const segment = source.segment as SegmentMeta
    if (!segment.columns.some((column) => column.field === field.id)) return []
    const wanted = within(series, segment.minSeries, segment.maxSeries)
    if (wanted.length === 0) return []
    const blocks = this.pages.of(source, wanted, scope)
    if (blocks instanceof Promise) return blocks.then((list) => list ?? this.byStatement(source, wanted, scope))
    return blocks ?? this.byStatement(source, wanted, scope)
  }

  /** As `of`, with values that are read when they are asked for; undefined when pages do not tell all. */
  rows(source: Source, series: Int32Array, fields: readonly FieldDef[], sparse: boolean, scope: AnyScope): Promise<RowBlock[] | undefined> {
    const { minSeries, maxSeries } = source.segment as SegmentMeta
    return this.pages.rowGroups(source, within(series, minSeries, maxSeries), fields, sparse, scope)
  }

  /** Calls what reads values of a segment's rows. @returns undefined when that is not possible. */
  reading<T>(source: Source, read: () => T): Promise<T | undefined> {
    return this.pages.reading(source, read)
  }

  private byStatement(source: Source, wanted: Int32Array, scope: ReadScope): SampleBlock[] | Promise<SampleBlock[]> {
    const { context, field, all, signal } = scope
    const layout = this.layoutOf(source.segment as SegmentMeta, source.measurement ?? NO_SERIES, all)
    if (layout.density > LONG_SERIES) return read(source, wanted, scope).then((block) => [block])
    const numbers = blockNumbers(wanted, layout.shift)
    const found = new Map<number, SampleBlock>()
    const lacking: number[] = []
    for (const number of numbers) {
      const block = this.cache.get(layout.owned, field.id * FIELD_SPAN + number)
      if (block === undefined) lacking.push(number)
      else found.set(number, block)
    }
    if (lacking.length === 0) return numbers.map((number) => found.get(number) as SampleBlock)
    // Sample blocks that would not stay together anyway are not made whole for a part of their time.
    if (!this.cache.holds(lacking.length * layout.rows * SAMPLE_BYTES)) return read(source, wanted, scope).then((block) => [block])
    return this.load(context, source, field, layout, lacking, signal).then((loaded) =>
      numbers.map((number) => (found.get(number) ?? loaded.get(number)) as SampleBlock),
    )
  }

  /** See `SegmentPages.filled`. */
  filled({ segment }: Source, scope: ReadScope): Promise<boolean | undefined> {
    return this.pages.filled(segment as SegmentMeta, scope)
  }

  /** The series that have rows in a source, ascending; kept as long as the segment is known. */
  async seriesOf({ segment: meta, measurement }: Source, scope: ReadScope): Promise<Int32Array> {
    const segment = meta as SegmentMeta
    let owned = this.series.get(segment)
    if (owned === undefined) {
      owned = (await this.pages.seriesOf(segment, scope)) ?? (await distinctSeries(segment, measurement !== undefined, scope))
      this.series.set(segment, owned)
    }
    return seriesOfMeasurement(owned, measurement)
  }

  private layoutOf(segment: SegmentMeta, measurement: number, all: Int32Array): SegmentLayout {
    let layouts = this.layouts.get(segment)
    if (layouts === undefined) this.layouts.set(segment, (layouts = new Map()))
    let layout = layouts.get(measurement)
    if (layout === undefined) {
      const span = segment.maxSeries - segment.minSeries + 1
      const own = Math.max(1, within(all, segment.minSeries, segment.maxSeries).length)
      // A measurement of a shared table is taken to have as many rows a series as the others.
      const density = segment.rows / (measurement === NO_SERIES ? own : span)
      const numbers = (span / own) * Math.max(1, SAMPLE_BLOCK_ROWS / density)
      const shift = Math.min(30, Math.max(0, Math.floor(Math.log2(numbers))))
      layout = { owned: new OwnedBlocks(segment.id), shift, density, rows: Math.min(own, (2 ** shift * own) / span) * density }
      layouts.set(measurement, layout)
    }
    return layout
  }

  /** Reads blocks that follow each other in one statement. */
  private async load(
    context: RelationContext,
    source: Source,
    field: FieldDef,
    { owned, shift }: SegmentLayout,
    lacking: readonly number[],
    signal: AbortSignal | undefined,
  ): Promise<Map<number, SampleBlock>> {
    const out = new Map<number, SampleBlock>()
    for (let from = 0; from < lacking.length; ) {
      let to = from + 1
      while (to < lacking.length && lacking[to] === lacking[to - 1] + 1) to++
      const builders = new Map<number, SampleBlockBuilder>()
      const bounds = `${SERIES_COLUMN} BETWEEN ${lacking[from] * 2 ** shift} AND ${Math.min(0x7fffffff, (lacking[to - 1] + 1) * 2 ** shift - 1)}`
      await eachRow(context, source, field, [bounds], signal, (series) => {
        const number = series >>> shift
        let builder = builders.get(number)
        if (builder === undefined) builders.set(number, (builder = new SampleBlockBuilder(1024)))
        return builder
      })
      for (let i = from; i < to; i++) {
        const builder = builders.get(lacking[i]) ?? new SampleBlockBuilder(0)
        const block = builder.build(true)
        out.set(lacking[i], block)
        this.cache.put(owned, field.id * FIELD_SPAN + lacking[i], block, builder.bytes)
      }
      from = to
    }
    return out
  }
}

async function read(source: Source, series: Int32Array, { context, field, range, signal, limit }: ReadScope): Promise<SampleBlock> {
  const builder = new SampleBlockBuilder(4096, limit * series.length)
  const first = series[0]
  const last = series[series.length - 1]
  const among = first === last ? `${SERIES_COLUMN} = ${first}` : `${SERIES_COLUMN} BETWEEN ${first} AND ${last}`
  const bounds = [among, ...timeConditions(source, range)]
  await eachRow(context, source, field, bounds, signal, (number) => (contains(series, number) ? builder : undefined))
  return builder.build(false)
}

function blockNumbers(series: Int32Array, shift: number): number[] {
  const out: number[] = []
  let last = -1
  for (let i = 0; i < series.length; i++) {
    const number = series[i] >>> shift
    if (number === last) continue
    out.push((last = number))
  }
  return out
}

/** Adds each row with a value to the builder of its series, in order. */
async function eachRow(
  context: RelationContext,
  source: Source,
  field: FieldDef,
  conditions: readonly string[],
  signal: AbortSignal | undefined,
  builderOf: (series: number) => SampleBlockBuilder | undefined,
): Promise<void> {
  const segment = source.segment as SegmentMeta
  const value = rawColumn(segment, field)
  const float = field.type === 'float64'
  const column = field.type === 'histogram' || float ? value : `CAST(${value} AS DOUBLE)`
  const sql = `SELECT ${SERIES_COLUMN}, ${TIME_COLUMN}, ${column} AS v ${await from(context, source, conditions, signal)}`
  let before = NO_SERIES
  let builder: SampleBlockBuilder | undefined
  for await (const { rows, columns } of streamSql(context.duck, sql, signal)) {
    const numbers = columns[0].values as Int32Array
    const times = halves(columns[1].values as BigInt64Array)
    const { values, validity } = columns[2]
    const bits = field.type === 'histogram' ? undefined : halves(values as Float64Array)
    for (let i = 0; i < rows; i++) {
      const series = numbers[i]
      if (series !== before) {
        if (series < before) throw new SvcError('INTERNAL_ERROR', `cannot read segment "${segment.file}" series by series: its rows do not come in order`)
        builder = builderOf(series)
        before = series
      }
      if (builder === undefined) continue
      if (validity !== undefined && validity[i] === 0) {
        builder.skip()
        continue
      }
      if (bits !== undefined) builder.addFloat(series, times[i * 2], times[i * 2 + 1], bits[i * 2], bits[i * 2 + 1])
      else builder.addBlob(series, times[i * 2], times[i * 2 + 1], (values as Uint8Array[])[i])
    }
  }
}

async function distinctSeries(segment: SegmentMeta, shared: boolean, { context, signal }: ReadScope): Promise<OwnedSeries> {
  const out = new OwnedSeriesBuilder()
  const columns = shared ? `${MEASUREMENT_COLUMN}, ${SERIES_COLUMN}` : SERIES_COLUMN
  const sql = `SELECT DISTINCT ${columns} ${await from(context, { segment, measurement: undefined }, [], signal)} ORDER BY ${columns}`
  for await (const { rows, columns } of streamSql(context.duck, sql, signal)) {
    const [series, measurements] = columns.toReversed().map(({ values }) => values as Int32Array)
    out.add(series, measurements, rows)
  }
  return out.build()
}

/** Where a source's rows are, verified. */
async function from(
  context: RelationContext,
  { segment, measurement }: Pick<Source, 'segment' | 'measurement'>,
  conditions: readonly string[],
  signal: AbortSignal | undefined,
): Promise<string> {
  await context.verifier?.ensure([segment as SegmentMeta], signal)
  const path = segmentPathOf(context.duck, context.dataDir, segment as SegmentMeta)
  const all = [...(measurement === undefined ? [] : [`_measurement = ${measurement}`]), ...conditions]
  return `FROM ${readSql([path])}${all.length === 0 ? '' : ` WHERE ${all.join(' AND ')}`}`
}

function halves(array: BigInt64Array | Float64Array): Int32Array {
  return new Int32Array(array.buffer, array.byteOffset, array.length * 2)
}
