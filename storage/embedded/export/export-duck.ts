/**
 * Where an export's statements run: on the thread's instance of DuckDB, as far as they have room there. From the first one on that has none it is an
 * instance of the export's own, with one thread, and with room for a row group, which is as large as flushes and merges may make it, and for all columns.
 */
import { type Duck, isOutOfMemory } from '../duckdb/duckdb.ts'
import { footerOf } from '../parquet/parquet-file.ts'
import { type RelationContext, sourcesOf } from '../read/relation.ts'
import { type Interval, segmentPathOf } from '../read/sources.ts'
import { hasLength } from '../segment/row-group-bytes.ts'
import type { MeasurementDef } from '../threads/definitions.ts'
import type { SegmentMeta } from '../threads/segment-entry.ts'
import type { Snapshot, WorkerState } from '../threads/state.ts'

/** Of the texts of a row group, which is read whole: as it is stored, its pages, and what is made of them (measured: six). */
const GROUP_COPIES = 8

interface ExportDuckOptions {
  context: RelationContext
  snapshot: Snapshot
  measurement: MeasurementDef
  time: Interval
}

export class ExportDuck {
  private readonly options: ExportDuckOptions
  private context: RelationContext
  private own: Duck | undefined

  constructor(options: ExportDuckOptions) {
    this.options = options
    this.context = options.context
  }

  get state(): WorkerState {
    return this.context.state
  }

  /** @param body runs one statement; once more where it has found no memory on the thread's instance. */
  async run<T>(body: (context: RelationContext) => Promise<T>): Promise<T> {
    try {
      return await body(this.context)
    } catch (error) {
      if (this.own !== undefined || !isOutOfMemory(error)) throw error
      const { context, measurement } = this.options
      this.own = context.duck.alone(measurement.fields.length, this.largestRowGroup() * GROUP_COPIES)
      this.context = { ...context, duck: this.own }
      return body(this.context)
    }
  }

  async close(): Promise<void> {
    await this.own?.settled()
    this.own?.close()
  }

  /** Bytes of its texts. */
  private largestRowGroup(): number {
    const { context, snapshot, measurement, time } = this.options
    const segments = sourcesOf(context.state, snapshot, measurement, time, undefined).flatMap(({ segment }) => segment ?? [])
    return segments.reduce((most, segment) => Math.max(most, largestRowGroupOf(context, segment)), 0)
  }
}

function largestRowGroupOf({ duck, dataDir }: RelationContext, segment: SegmentMeta): number {
  const texts = segment.columns.filter(({ type }) => hasLength(type))
  const footer = texts.length === 0 ? undefined : footerOf(segmentPathOf(duck, dataDir, segment), segment.bytes)
  if (footer === undefined) return 0
  const columns = texts.map(({ name }) => footer.column(name)).filter((column) => column >= 0)
  let most = 0
  for (let group = 0; group < footer.groups; group++) {
    const bytes = columns.reduce((sum, column) => sum + footer.unpacked[group * footer.columns.length + column], 0)
    most = Math.max(most, bytes)
  }
  return most
}
