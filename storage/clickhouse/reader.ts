/** Reading: each question is a statement of its own, which sees ClickHouse as it is when it begins; what measurements there are is seen as of the reader's beginning. */
import type {
  MeasurementFields,
  MeasurementInfo,
  MeasurementsPage,
  MeasurementsPageRequest,
  Reader,
  ScanPlan,
  ScanRequest,
  SeriesChunk,
  SqlCursor,
  SqlRequest,
} from 'svcdb'
import type { AggregateRequest, AggregateSet, SampleRequest, SampleSet, SeriesSet } from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'
import { INT64_MAX, INT64_MIN, later } from '../common/time.ts'
import { type Aggregates, canAggregate } from './aggregates.ts'
import { type Catalog, infoOf, type Life, type StoredField } from './catalog.ts'
import type { Client, QueryOptions } from './client.ts'
import type { ReadBlock } from './native/decode.ts'
import { activeStatement, type RowsQuery, rowsStatement, samplesStatement } from './rows-query.ts'
import { sampleBlocks } from './sample-blocks.ts'
import type { SeriesNumbers } from './series-numbers.ts'
import { idAt, type Selected, type SeriesStore, type StoredSeries, StoredTags } from './series-store.ts'
import { WITHIN_DAYS } from './settings.ts'
import type { SqlContext } from './sql/run.ts'
import type { Place } from './statements.ts'
import { chunkOf, isShown } from './values.ts'

/** Rows of a chunk at most. */
const CHUNK_ROWS = 8192
/** Measurements that a statement names: of more, those of all are read. */
const NAMED_LIVES = 1000

export interface ReaderContext {
  client: Client
  place: Place
  aggregates: Aggregates
  series: SeriesStore
  numbers: SeriesNumbers
  regexTimeoutMs: number
  /** Awaited before the first question. */
  begin(): Promise<void>
  /** Measurements as they are now. */
  catalog: Pick<Catalog, 'list' | 'find' | 'count'>
  schema(namespace: string): readonly MeasurementFields[]
  /** First time that retention keeps of a measurement; INT64_MIN = all. */
  keptFrom(life: Life): bigint
  /** Sees that the tables of a measurement are there. */
  ready(life: Life): Promise<void>
  /** What statements of SQL need beside it. */
  sql(): Pick<SqlContext, 'binder' | 'now' | 'limits' | 'functions'>
}

type Asked = Pick<ScanRequest, 'namespace' | 'measurement' | 'matchers' | 'start' | 'end'>

export class ClickHouseReader implements Reader {
  private readonly context: ReaderContext
  private readonly signal: AbortSignal | undefined
  private readonly timeoutMs: number | undefined
  private readonly asker: string

  /** @param asker namespace of who asks; empty = not kept apart. */
  constructor(context: ReaderContext, signal: AbortSignal | undefined, timeoutMs?: number, asker = '') {
    this.context = context
    this.signal = signal
    this.timeoutMs = timeoutMs
    this.asker = asker
  }

  async measurements(namespace: string, only?: string): Promise<MeasurementInfo[]> {
    await this.context.begin()
    const { catalog } = this.context
    if (only === undefined) return this.described(namespace, catalog.list(namespace))
    const known = catalog.find(namespace, only)
    return known === undefined ? [] : this.described(namespace, [known])
  }

  async measurementsPage({ namespace, offset, limit }: MeasurementsPageRequest): Promise<MeasurementsPage> {
    const { catalog } = this.context
    const total = catalog.count(namespace)
    return { items: await this.described(namespace, catalog.list(namespace, offset, limit)), total }
  }

  private async described(namespace: string, lives: readonly Life[]): Promise<MeasurementInfo[]> {
    if (lives.length === 0) return []
    await this.context.ready(lives[0])
    const tags = await this.context.series.tagKeys(namespace, lives.length > NAMED_LIVES ? undefined : lives)
    return lives.map((life) => infoOf(life, tags.get(life.number) ?? []))
  }

  async schema(namespace: string): Promise<readonly MeasurementFields[]> {
    await this.context.begin()
    return this.context.schema(namespace)
  }

  async *scan(request: ScanRequest): AsyncGenerator<SeriesChunk> {
    await this.context.begin()
    const life = this.find(request)
    const all = [...life.fields.values()]
    const fields = request.fields === undefined ? all : all.filter(({ info }) => request.fields?.includes(info.name))
    const selected = await this.select(life, request)
    if (fields.length === 0 || selected.series.length === 0) return
    const keys = selected.series.map(({ key }) => key)
    const numbers = this.context.numbers.of(life.number, keys)
    const places = new Map(keys.map((key, i) => [key, i]))
    for await (const block of this.ask(rowsStatement(this.context.place, this.query(life, fields, selected, request)), selected)) {
      const [ids] = block.columns
      for (const [from, to] of runs(ids.bytes, block.rows)) {
        const place = places.get(idAt(ids.bytes, from))
        if (place !== undefined) yield* chunksOf(numbers[place], selected.series[place], fields, block, from, to)
      }
    }
  }

  async samples(request: SampleRequest): Promise<SampleSet> {
    await this.context.begin()
    const { life, field } = this.fieldOf(request)
    const selected = await this.select(life, request)
    const set = this.setOf(life, selected.series)
    const places = new Map(selected.series.map(({ key }, i) => [key, i]))
    const none = selected.series.length === 0 || field.type === 'string'
    const statement = samplesStatement(this.context.place, this.query(life, [field], selected, request), request.newestOnly === true)
    const answers = none ? NOTHING : this.ask(statement, selected)
    return { ...set, blocks: () => sampleBlocks(answers, field.info, places, selected.series.length, request.maxBlockSamples) }
  }

  async activeSeries(request: SampleRequest): Promise<SeriesSet> {
    await this.context.begin()
    const { life, field } = this.fieldOf(request)
    const selected = await this.select(life, request)
    const active = new Set<string>()
    // As with samples: texts are none.
    if (selected.series.length > 0 && field.type !== 'string')
      for await (const { rows, columns } of this.ask(activeStatement(this.context.place, this.query(life, [field], selected, request)), selected))
        for (let row = 0; row < rows; row++) active.add(idAt(columns[0].bytes, row))
    return this.setOf(
      life,
      selected.series.filter(({ key }) => active.has(key)),
    )
  }

  async aggregate(request: AggregateRequest): Promise<AggregateSet | undefined> {
    await this.context.begin()
    const { life, field } = this.fieldOf(request)
    if (!canAggregate(request, field)) return undefined
    await this.context.ready(life)
    const { aggregates, series, regexTimeoutMs } = this.context
    const source = await series.source(life, request.matchers ?? [], regexTimeoutMs, this.bounds())
    if (source === undefined) return undefined
    const within = source.all ? undefined : `SELECT series ${source.from}`
    const rows: RowsQuery = { life, fields: [field], series: undefined, within, ...this.timesOf(life, request) }
    return aggregates.answer(request, rows, source, this.bounds())
  }

  async explain(request: ScanRequest): Promise<ScanPlan> {
    await this.context.begin()
    const life = this.find(request)
    const { series } = await this.select(life, request)
    const { start, end } = request
    const time = { start: String(start ?? INT64_MIN), end: String(end ?? INT64_MAX) }
    return { measurement: life.name, series: series.length, time, segments: { total: 0, read: 0 }, bufferedRows: 0, deduplicated: true }
  }

  async sql(request: SqlRequest): Promise<SqlCursor> {
    await this.context.begin()
    const { catalog } = this.context
    const [first] = catalog.list(request.namespace, 0, 1)
    if (first !== undefined) await this.context.ready(first)
    const lives = (namespace: string) => catalog.list(namespace)
    const { openSql } = await import('./sql/run.ts')
    return openSql({ ...this.context.sql(), ...this.context, lives }, request, { signal: this.signal, timeoutMs: this.timeoutMs, asker: this.asker })
  }

  private find({ namespace, measurement }: Pick<Asked, 'namespace' | 'measurement'>): Life {
    const life = this.context.catalog.find(namespace, measurement)
    if (life === undefined) throw new SvcError('NOT_FOUND', `cannot read measurement "${measurement}": it does not exist`)
    return life
  }

  private fieldOf({ namespace, measurement, field: name }: SampleRequest): { life: Life; field: StoredField } {
    const life = this.find({ namespace, measurement })
    const field = life.fields.get(name)
    if (field === undefined) throw new SvcError('NOT_FOUND', `cannot read field "${name}" of measurement "${measurement}": it does not exist`)
    return { life, field }
  }

  private async select(life: Life, { matchers = [] }: Pick<SampleRequest, 'matchers'>): Promise<Selected> {
    await this.context.ready(life)
    const { series, regexTimeoutMs } = this.context
    return series.select(life, matchers, regexTimeoutMs, this.bounds())
  }

  private bounds(): Pick<QueryOptions, 'signal' | 'timeoutMs' | 'asker'> {
    return { asker: this.asker, timeoutMs: this.timeoutMs ?? 0, ...(this.signal === undefined ? {} : { signal: this.signal }) }
  }

  private query(life: Life, fields: readonly StoredField[], selected: Selected, asked: Pick<Asked, 'start' | 'end'>): RowsQuery {
    const series = selected.all ? undefined : selected.series.map(({ key }) => key)
    return {
      life,
      fields,
      series,
      within: selected.all ? undefined : selected.within?.statement,
      ...this.timesOf(life, asked),
    }
  }

  private timesOf(life: Life, { start, end }: Pick<Asked, 'start' | 'end'>): Pick<RowsQuery, 'start' | 'end'> {
    const kept = this.context.keptFrom(life)
    return { start: kept === INT64_MIN ? start : later(start ?? kept, kept), end }
  }

  private ask(statement: string, { within }: Selected): AsyncIterable<ReadBlock> {
    // Parameters that a statement does not use are left alone.
    const params = within === undefined ? {} : { params: within.params }
    return this.context.client.blocks(statement, { ...params, ...this.bounds(), settings: [WITHIN_DAYS] })
  }

  private setOf(life: Life, series: readonly StoredSeries[]): SeriesSet {
    const numbers = this.context.numbers.of(
      life.number,
      series.map(({ key }) => key),
    )
    return { series: numbers, tags: new StoredTags(series) }
  }
}

const NOTHING: AsyncIterable<ReadBlock> = (async function* () {})()

/** Runs of rows of the same series, of at most as many rows as a chunk may have. */
function* runs({ buffer, byteOffset }: Uint8Array, rows: number): Generator<[from: number, to: number]> {
  const words = new BigUint64Array(buffer, byteOffset)
  let from = 0
  for (let row = 1; row <= rows; row++) {
    const same = row < rows && words[row * 2] === words[from * 2] && words[row * 2 + 1] === words[from * 2 + 1]
    if (same && row - from < CHUNK_ROWS) continue
    yield [from, row]
    from = row
  }
}

function* chunksOf(number: number, { tags }: StoredSeries, fields: readonly StoredField[], block: ReadBlock, from: number, to: number): Generator<SeriesChunk> {
  const [, time, ...columns] = block.columns
  const rows: number[] = []
  for (let row = from; row < to; row++) if (fields.some(({ info }, i) => isShown(info, columns[i], row))) rows.push(row)
  if (rows.length === 0) return
  const times = new BigInt64Array(time.bytes.buffer)
  yield {
    series: number,
    tags: Object.fromEntries(tags.flatMap((key, i) => (i % 2 === 0 ? [[key, tags[i + 1]]] : []))),
    times: BigInt64Array.from(rows, (row) => times[row]),
    columns: fields.flatMap(({ info }, i) => chunkOf(info, columns[i], rows) ?? []),
  }
}
