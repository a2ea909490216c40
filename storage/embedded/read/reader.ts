/** The Reader a job is handed: one snapshot, and every row source and statement it opened closed with it. */
import type { ExportResult, Matcher, MeasurementFields, MeasurementInfo, Reader, Scan, ScanPlan, ScanRequest, SqlChunk, SqlCursor, SqlRequest } from 'svcdb'
import type { SampleRequest, SampleSet, SeriesSet } from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'
import { inNamespace } from '../../common/names.ts'
import { earlier, INT64_MAX, INT64_MIN, later } from '../../common/time.ts'
import { interruptOn, SOURCE_FUNCTION, sqlName } from '../duckdb/duckdb.ts'
import { encryptedField, markEncrypted } from '../encryption/open.ts'
import { apart } from '../engine-process/apart.ts'
import type { ProcessPool } from '../engine-process/pool.ts'
import { type ExportTask, exportMeasurement } from '../export/export.ts'
import { UnverifiedSegments } from '../segment/verify.ts'
import type { Selection } from '../series/selection.ts'
import { selectionOf } from '../series/selection.ts'
import { duckType, type RelationRequest, type SqlApart, type SqlHost } from '../sql/host.ts'
import type { OpenedSql } from '../sql/open.ts'
import type { PlanBounds } from '../sql/plan-guard.ts'
import { fieldInfo, type MeasurementDef } from '../threads/definitions.ts'
import type { FunctionSpec } from '../threads/function-spec.ts'
import type { SegmentMeta } from '../threads/segment-entry.ts'
import type { Snapshot } from '../threads/state.ts'
import { hintedSeries } from './hinted-series.ts'
import { type RelationArgs, type RelationContext, relation, splitRelation } from './relation.ts'
import { rangeOf, selectActive, selectSamples } from './samples/select.ts'
import { explainScan, scanBytes, scanEarliest, scanScope, scanSeries } from './scan.ts'
import { commonInterval, type Interval, segmentPathOf } from './sources.ts'
import { sqlMeasurement } from './sql-measurement.ts'

const NS_PER_MS = 1_000_000n
const EVER: Interval = [INT64_MIN, INT64_MAX]
const NO_FUNCTIONS: readonly FunctionSpec[] = []
/** Loaded by the first statement: looking for a loaded module again takes as long as a part of a small one. */
let laneModule: typeof import('./lane.ts') | undefined

/** A statement's connection, and its place. */
type Connected = Required<Pick<SqlHost, 'connection' | 'place'>>

interface Running extends Connected {
  /** Of the rows that it reads. */
  times: Interval
  /** What its now() is, nanoseconds. */
  now: bigint
}

export class EngineReader implements Reader {
  private readonly context: RelationContext
  private snapshot: Snapshot
  private readonly signal: AbortSignal | undefined
  private readonly calls: string[] = []
  /** How to end each statement whose connection is still out. */
  private readonly statements = new Set<() => void>()
  /** Of rows that were asked for; the first is after the second while none were. */
  private readTimes: Interval = [INT64_MAX, INT64_MIN]

  private constructor(context: RelationContext, snapshot: Snapshot, signal: AbortSignal | undefined) {
    this.context = context
    this.snapshot = snapshot
    this.signal = signal
  }

  /** Sees all that was visible at the call. */
  static async open(context: RelationContext, signal?: AbortSignal): Promise<EngineReader> {
    return new EngineReader(context, await context.state.snapshot(context.pin), signal)
  }

  get memoryLimit(): number {
    return this.context.duck.memoryLimit
  }

  /**
   * Times of the rows, read or looked for, that the answers of this reader follow from; nanoseconds, inclusive. Beside them answers follow from measurements, their tags and
   * fields, and the series there are.
   */
  get read(): Interval {
    return this.readTimes
  }

  scan(request: ScanRequest): Scan {
    const { context, snapshot, signal } = this
    const scope = scanScope(context, request)
    const { earliest } = request
    this.reads(scope.time)
    return {
      [Symbol.asyncIterator]: () =>
        earliest === undefined ? scanSeries(context, snapshot, scope, signal) : scanEarliest(context, snapshot, scope, earliest, signal),
      get bytes() {
        return scanBytes(context, snapshot, scope)
      },
    }
  }

  async schema(namespace: string): Promise<readonly MeasurementFields[]> {
    return this.context.state.schema(namespace)
  }

  samples(request: SampleRequest): Promise<SampleSet> {
    this.reads(rangeOf(request))
    return selectSamples(this.context, this.snapshot, request, this.signal)
  }

  activeSeries(request: SampleRequest): Promise<SeriesSet> {
    this.reads(rangeOf(request))
    return selectActive(this.context, this.snapshot, request, this.signal)
  }

  explain(request: ScanRequest): ScanPlan {
    this.reads(EVER)
    return explainScan(this.context, this.snapshot, request, scanScope(this.context, request))
  }

  /** Everything that was acknowledged before the job is in segments: an export may take long, and holds no memory. */
  export(task: ExportTask): Promise<ExportResult> {
    this.reads(EVER)
    this.snapshot = this.snapshot.inSegments
    this.context.pin?.releaseMemtables()
    return exportMeasurement(this.context, this.snapshot, task, this.signal)
  }

  async measurements(namespace: string, only?: string): Promise<MeasurementInfo[]> {
    const { state, duck } = this.context
    const info = (def: MeasurementDef): MeasurementInfo => ({ name: def.name, tags: state.series.tagKeys(def.id), fields: def.fields.map(fieldInfo) })
    const known = only === undefined ? undefined : state.measurement(namespace, only)
    const all = only === undefined ? state.measurementsOf(namespace) : known === undefined ? [] : [known]
    return all.map((def) => markEncrypted(duck.encrypted.keys, info(def)))
  }

  async sql(request: SqlRequest): Promise<SqlCursor> {
    laneModule ??= await import('./lane.ts')
    const now = BigInt(Date.now()) * NS_PER_MS
    return laneModule.lane(
      this.context,
      this.snapshot,
      request,
      this.signal,
      (times) => this.reads(times),
      (times, firstRows) => this.statement(request, { now, times }, firstRows),
    )
  }

  /** Runs a statement in DuckDB. @param firstRows of its answer, in place of those that its LIMIT and OFFSET choose. */
  private async statement(request: SqlRequest, within: Pick<Running, 'now' | 'times'>, firstRows?: number): Promise<SqlCursor> {
    const { duck } = this.context
    // A thread that only flushes, or a node nobody asks in SQL, never loads it.
    const { openSql, sqlSetup } = await import('../sql/in-duckdb.ts')
    const { functions, register } = await sqlSetup(this.context.sqlFunctions ?? NO_FUNCTIONS)
    const connection = await duck.connect()
    duck.extend(register, connection)
    const place = duck.place(this.signal)
    const calm = interruptOn(this.signal, connection)
    let unread: OpenedSql | undefined
    const abandon = (): void => {
      unread?.discard()
      release(unread !== undefined)
    }
    const release = (reusable: boolean): void => {
      if (!this.statements.delete(abandon)) return
      calm()
      place.leave()
      duck.release(connection, reusable)
    }
    this.statements.add(abandon)
    const read = (cursor: OpenedSql): AsyncGenerator<SqlChunk> => {
      unread = undefined
      return releasing(cursor, release)
    }
    try {
      const cursor = await this.opened(request.namespace, { connection, place, ...within }, (host) =>
        openSql({ ...host, functions }, request, this.signal, firstRows),
      )
      unread = cursor
      return { columns: cursor.columns, parameters: cursor.parameters, [Symbol.asyncIterator]: () => read(cursor) }
    } catch (error) {
      release(false)
      throw error
    }
  }

  /** Live series of a measurement that satisfy all matchers. */
  select(measurement: number, matchers: readonly Matcher[]): Selection {
    return selectionOf(this.context.state.series, measurement, matchers)
  }

  /** Safe twice. */
  close(): void {
    for (const abandon of [...this.statements]) abandon()
    for (const call of this.calls.splice(0)) this.context.duck.removeSource(call)
    this.context.duck.jobEnded(this.signal)
  }

  /**
   * Which segments a statement reads is known once it is rewritten. Where some are not verified yet, or lie in an archive, that is done when rows are
   * asked for: the columns of an answer are known without them.
   */
  private async opened(namespace: string, running: Running, open: (host: SqlHost) => Promise<OpenedSql>): Promise<OpenedSql> {
    const wanted: SegmentMeta[] = []
    try {
      return await open(this.host(namespace, running, wanted))
    } catch (error) {
      if (wanted.length === 0) throw error
    }
    const described = await open(describingHost(this.host(namespace, running, []), namespace))
    if (described.parameters.length > 0) return described
    described.discard()
    const { context, signal } = this
    const host = (missing: SegmentMeta[]): SqlHost => this.host(namespace, running, missing)
    return {
      columns: described.columns,
      parameters: [],
      discard: () => {},
      async *[Symbol.asyncIterator]() {
        for (;;) {
          await context.verifier?.ensure(wanted.splice(0), signal)
          const cursor = await open(host(wanted)).catch((error) => {
            if (wanted.length === 0) throw error
          })
          if (cursor !== undefined) return yield* cursor
        }
      },
    }
  }

  /** @param wanted collects segments that have to be verified before the statement can be tried again. */
  private host(namespace: string, { now, times, ...connected }: Running, wanted: SegmentMeta[]): SqlHost {
    const { state, processes } = this.context
    const read = new Set<MeasurementDef>()
    const host: SqlHost & Connected = {
      ...connected,
      limits: this.context.sqlLimits,
      bounds: this.boundsOf(namespace, read),
      measurements: (name) => state.measurementsOf(name).map((def) => sqlMeasurement(state, def)),
      measurement: (name, measurement) => {
        const def = state.measurement(name, measurement)
        return def === undefined ? undefined : sqlMeasurement(state, def)
      },
      relation: (request) => {
        const def = state.measurement(namespace, request.measurement)
        if (def === undefined) throw new SvcError('NOT_FOUND', `cannot read measurement "${request.measurement}": it does not exist${inNamespace(namespace)}`)
        read.add(def)
        return noting(wanted, () => this.relationSql(def, request, times))
      },
      split: (request) => {
        const def = state.measurement(namespace, request.measurement)
        if (def !== undefined) read.add(def)
        const parts = def === undefined ? undefined : noting(wanted, () => splitRelation(this.context, this.snapshot, this.relationArgs(def, request, times)))
        this.calls.push(...(parts?.calls ?? []))
        return parts
      },
      now: () => now,
      newestFrom: async (plan) => {
        this.reads(EVER)
        laneModule ??= await import('./lane.ts')
        return laneModule.newestFrom(this.context, this.snapshot, namespace, plan, this.signal)
      },
    }
    return processes?.enabled === true ? { ...host, apart: () => this.apart(namespace, host, times, processes) } : host
  }

  private apart(namespace: string, host: SqlHost & Connected, times: Interval, pool: ProcessPool): SqlApart {
    const { state, duck, verifier, maxScratchBytes = Number.MAX_SAFE_INTEGER } = this.context
    const { signal } = this
    const defOf = ({ measurement }: RelationRequest): MeasurementDef => state.measurement(namespace, measurement) as MeasurementDef
    return apart(host, {
      pool,
      namespace,
      connection: host.connection,
      place: host.place,
      maxScratchBytes,
      signal,
      select: async (request) => {
        for (;;) {
          const missing: SegmentMeta[] = []
          try {
            return noting(missing, () => this.relationSql(defOf(request), request, times))
          } catch (error) {
            if (missing.length === 0) throw error
            await verifier?.ensure(missing, signal)
          }
        }
      },
      refusedPlan: (reason) => this.context.refusedPlan?.(namespace, reason),
      secret: (request) => {
        const { fields, tables } = defOf(request)
        const wanted = fields.filter(({ column }) => request.columns.includes(column))
        return (
          encryptedField(
            duck.encrypted.keys.columns,
            wanted,
            tables.flatMap((id) => state.segments.get(id) ?? []),
          ) !== undefined
        )
      },
    })
  }

  /** @param read the measurements that the statement has asked for by now. */
  private boundsOf(namespace: string, read: ReadonlySet<MeasurementDef>): PlanBounds {
    const { context, snapshot } = this
    let files: Set<string> | undefined
    return {
      source: SOURCE_FUNCTION,
      isFile: (path) => (files ??= filesOf(context, snapshot, read)).has(path),
      isSource: (call) => this.calls.includes(call),
      refused: (reason) => context.refusedPlan?.(namespace, reason),
    }
  }

  private reads([from, to]: Interval): void {
    this.readTimes = [earlier(this.readTimes[0], from), later(this.readTimes[1], to)]
  }

  private relationSql(def: MeasurementDef, request: RelationRequest, times: Interval): string {
    const { sql, calls } = relation(this.context, this.snapshot, this.relationArgs(def, request, times))
    this.calls.push(...calls)
    return sql
  }

  /** Tag hints become the series that satisfy them. */
  private relationArgs(def: MeasurementDef, { columns, time: asked, tags, enumTags }: RelationRequest, times: Interval): RelationArgs {
    const time = commonInterval(asked, times)
    this.reads(time)
    return { measurement: def, columns, time, series: hintedSeries(this.context.state.series, def, tags), enumTags }
  }
}

/** Paths of the segments that hold rows of the measurements. */
function filesOf({ duck, dataDir }: RelationContext, snapshot: Snapshot, measurements: ReadonlySet<MeasurementDef>): Set<string> {
  const tables = new Set([...measurements].flatMap((def) => def.tables))
  return new Set([...tables].flatMap((id) => snapshot.table(id).segments.map((segment) => segmentPathOf(duck, dataDir, segment))))
}

/** Answers like the host, with measurements that have no rows. */
function describingHost(host: SqlHost, namespace: string): SqlHost {
  const relation = ({ measurement, columns }: RelationRequest): string => {
    const known = host.measurement(namespace, measurement)?.columns ?? []
    const empty = (name: string): string => `NULL::${duckType(known.find((column) => column.name === name)!)} AS ${sqlName(name)}`
    return `SELECT ${columns.map(empty).join(', ')} WHERE FALSE`
  }
  return { ...host, relation, split: undefined }
}

function noting<T>(wanted: SegmentMeta[], body: () => T): T {
  try {
    return body()
  } catch (error) {
    if (error instanceof UnverifiedSegments) wanted.push(...error.segments)
    throw error
  }
}

async function* releasing(cursor: SqlCursor, release: (reusable: boolean) => void): AsyncGenerator<SqlChunk> {
  let finished = false
  try {
    yield* cursor
    finished = true
  } finally {
    release(finished)
  }
}
