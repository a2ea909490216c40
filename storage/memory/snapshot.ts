/** Reading: a snapshot shares the points with the engine until the engine changes them (`Series.shared`). */
import type { ColumnChunk, FieldInfo, MeasurementFields, MeasurementInfo, Reader, ScanPlan, ScanRequest, SeriesChunk, SqlCursor } from 'svcdb'
import type { SampleRequest, SampleSet, SeriesSet } from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'
import { nextTurn } from 'svcdb/lib/event-loop'
import { compileMatchers } from '../common/matchers.ts'
import { INT64_MAX, INT64_MIN } from '../common/time.ts'
import { isShown, type Value } from './rows.ts'
import { sampleSet, seriesSet } from './samples.ts'
import type { Fields, Measurement, SeriesTable } from './series.ts'

/** Rows of a chunk at most: what a reader holds at once. */
const CHUNK_ROWS = 8192

interface FrozenSeries {
  number: number
  tags: Record<string, string>
  points: ReadonlyMap<bigint, Fields>
}

interface FrozenMeasurement {
  info: MeasurementInfo
  regexTimeoutMs: number
  series: FrozenSeries[]
}

type Point = [time: bigint, fields: Fields]

export class Snapshot implements Reader {
  private readonly namespaces: Map<string, Map<string, FrozenMeasurement>>

  private constructor(namespaces: Map<string, Map<string, FrozenMeasurement>>) {
    this.namespaces = namespaces
  }

  /** @param regexTimeoutMs what a regular expression of a condition may take. */
  static of(table: SeriesTable, namespaces: Iterable<string>, regexTimeoutMs: number): Snapshot {
    const frozen = [...namespaces].map((ns) => [ns, new Map(table.list(ns).map((m) => [m.name, freeze(m, regexTimeoutMs)]))] as const)
    return new Snapshot(new Map(frozen))
  }

  async measurements(namespace: string, only?: string): Promise<MeasurementInfo[]> {
    const all = this.namespaces.get(namespace)
    if (only === undefined) return [...(all?.values() ?? [])].map((m) => m.info)
    const known = all?.get(only)
    return known === undefined ? [] : [known.info]
  }

  async *scan(request: ScanRequest): AsyncIterable<SeriesChunk> {
    const measurement = this.find(request)
    const fields = wantedFields(measurement.info, request)
    for (const series of matching(measurement, request)) {
      const points = pointsIn(series, request, fields)
      for (let at = 0; at < points.length; at += CHUNK_ROWS) {
        // A reader that never waits would otherwise keep timers, and so its own time limit, from running.
        await nextTurn()
        yield chunkOf(series, points.slice(at, at + CHUNK_ROWS), fields)
      }
    }
  }

  schema(namespace: string): Promise<readonly MeasurementFields[]> {
    return this.measurements(namespace)
  }

  async samples(request: SampleRequest): Promise<SampleSet> {
    const { series, field, points } = this.select(request)
    return sampleSet(series, field, points, request.newestOnly === true)
  }

  async activeSeries(request: SampleRequest): Promise<SeriesSet> {
    const { series, points } = this.select(request)
    return seriesSet(series.filter((_, i) => points[i].length > 0))
  }

  private select(request: SampleRequest): { series: FrozenSeries[]; field: FieldInfo; points: (readonly [bigint, Value])[][] } {
    const measurement = this.find(request)
    const field = measurement.info.fields.find(({ name }) => name === request.field)
    if (field === undefined) throw new SvcError('NOT_FOUND', `cannot read field "${request.field}" of measurement "${request.measurement}": it does not exist`)
    const series = field.type === 'string' ? [] : matching(measurement, request)
    // What ordinary readers do not see is a sample here.
    const own = ({ points }: FrozenSeries) =>
      [...points]
        .flatMap(([time, values]) => (values.has(field.name) ? [[time, values.get(field.name) as Value] as const] : []))
        .filter(([time]) => (request.start === undefined || time >= request.start) && (request.end === undefined || time < request.end))
        .sort(([a], [b]) => (a < b ? -1 : 1))
    return { series, field, points: series.map(own) }
  }

  explain(request: ScanRequest): ScanPlan {
    const measurement = this.find(request)
    const fields = wantedFields(measurement.info, request)
    const series = matching(measurement, request)
    return {
      measurement: request.measurement,
      series: series.length,
      time: { start: String(request.start ?? INT64_MIN), end: String(request.end ?? INT64_MAX) },
      segments: { total: 0, read: 0 },
      bufferedRows: series.reduce((rows, s) => rows + pointsIn(s, request, fields).length, 0),
      deduplicated: false,
    }
  }

  async sql(): Promise<SqlCursor> {
    throw new SvcError('SQL_ERROR', 'cannot run SQL: the storage engine "memory" has none; choose another engine, or use a native query')
  }

  private find(request: { namespace: string; measurement: string }): FrozenMeasurement {
    const measurement = this.namespaces.get(request.namespace)?.get(request.measurement)
    if (measurement === undefined) {
      throw new SvcError('NOT_FOUND', `cannot read measurement "${request.measurement}": it does not exist; GET /api/v1/measurements lists those that do`)
    }
    return measurement
  }
}

export function infoOf(measurement: Measurement): MeasurementInfo {
  return { name: measurement.name, tags: [...measurement.tagKeys.keys()].sort(), fields: [...measurement.fields.values()].map((f) => ({ ...f })) }
}

function freeze(measurement: Measurement, regexTimeoutMs: number): FrozenMeasurement {
  const live = [...measurement.series.values()].filter((s) => s.live).sort((a, b) => a.number - b.number)
  for (const series of live) series.shared = true
  return { info: infoOf(measurement), regexTimeoutMs, series: live.map(({ number, tags, points }) => ({ number, tags: { ...tags }, points })) }
}

function matching(measurement: FrozenMeasurement, request: Pick<SampleRequest, 'matchers'>): FrozenSeries[] {
  const matches = compileMatchers(request.matchers ?? [], measurement.regexTimeoutMs)
  return measurement.series.filter((s) => matches((key) => (Object.hasOwn(s.tags, key) ? s.tags[key] : undefined)))
}

function wantedFields(info: MeasurementInfo, request: ScanRequest): FieldInfo[] {
  const wanted = request.fields
  return wanted === undefined ? info.fields : info.fields.filter((f) => wanted.includes(f.name))
}

const hasValue = (values: Fields, { name, type }: FieldInfo): boolean => isShown(type, values.get(name))

/** Points in ascending time that have at least one of the fields. */
function pointsIn(series: FrozenSeries, request: ScanRequest, fields: FieldInfo[]): Point[] {
  const { start, end } = request
  const points = [...series.points].filter(
    ([time, values]) => (start === undefined || time >= start) && (end === undefined || time < end) && fields.some((f) => hasValue(values, f)),
  )
  return points.sort((a, b) => (a[0] < b[0] ? -1 : 1))
}

function chunkOf(series: FrozenSeries, points: Point[], fields: FieldInfo[]): SeriesChunk {
  return {
    series: series.number,
    tags: { ...series.tags },
    times: BigInt64Array.from(points, ([time]) => time),
    columns: fields.filter((f) => points.some(([, values]) => hasValue(values, f))).map((f) => columnOf(f, points)),
  }
}

function columnOf(field: FieldInfo, points: Point[]): ColumnChunk {
  const present = Uint8Array.from(points, ([, values]) => (hasValue(values, field) ? 1 : 0))
  const values = vectorOf(
    field,
    points.map(([, values]) => (hasValue(values, field) ? values.get(field.name) : undefined)),
  )
  return { ...field, values, ...(present.includes(0) ? { validity: present } : {}) }
}

function vectorOf(field: FieldInfo, values: (Value | undefined)[]): ColumnChunk['values'] {
  switch (field.type) {
    case 'float64':
      return Float64Array.from(values, (v) => (v ?? 0) as number)
    case 'int64':
      return BigInt64Array.from(values, (v) => (v ?? 0n) as bigint)
    case 'uint64':
      return BigUint64Array.from(values, (v) => (v ?? 0n) as bigint)
    case 'bool':
      return Uint8Array.from(values, (v) => (v === true ? 1 : 0))
    case 'string':
      return values.map((v) => (v ?? null) as string | null)
    case 'decimal':
      return values.map((v) => (v ?? 0n) as bigint)
    case 'histogram':
      return values.map((v) => (v ?? new Uint8Array(0)) as Uint8Array)
  }
}
