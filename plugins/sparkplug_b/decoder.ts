/** Messages of Sparkplug B to points: a message's metrics are fields of a point, or of several where they have times of their own. */
import type { MeasurementRef, SeriesResolver } from 'svcdb'
import { RecentMap } from 'svcdb/lib/cache'
import { type TableBatch, typeConflict, type WriteBatch } from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'
import { OneByOne, type Work } from 'svcdb/lib/event-loop'
import { ProtobufReader } from 'svcdb/lib/protobuf'
import { BD_SEQ, type Definition, MAX_DEPTH, MAX_PARENT, SLICE } from './definitions.ts'
import { GOOD, isDefinition, MEMBERS, METRICS, Metric, NO_VALUE, TEMPLATE, TEMPLATE_VALUE, typeName, UNKNOWN } from './payload.ts'
import type { Session } from './sessions.ts'
import { isStored, typeOf, Value } from './values.ts'

/** What became of metrics. */
export const OUTCOMES = ['stored', 'null', 'transient', 'bad_quality', 'not_finite', 'unsupported', 'unknown', 'refused'] as const
type Outcome = (typeof OUTCOMES)[number]

interface DecoderOptions {
  stateMeasurement: string
  /** Of one measurement. */
  maxFields: number
  /** Of a field, in bytes of UTF-8. */
  maxNameBytes: number
  /** Of a text, in bytes of UTF-8. */
  maxStringBytes: number
  /** The births of the message's edge node are needed to read it. */
  missing(session: Session): void
}

export interface DecodeMessage {
  body: Uint8Array
  session: Session
  /** When it came, nanoseconds since the Unix epoch. */
  time: bigint
  measurement: string | undefined
  /** key, value, key, value. */
  tags: readonly string[]
}

/** Of the protocol, and no values of anything. */
const CONTROL: ReadonlySet<string> = new Set([BD_SEQ, 'Node Control/Rebirth', 'Device Control/Rebirth'])
/** Columns that each measurement has. */
const RESERVED: ReadonlySet<string> = new Set(['_time', '_series', '_measurement'])
const MAX_REASONS = 16
const MAX_SERIES = 10_000
/** Milliseconds that nanoseconds of 64 bits hold. */
const MAX_MS = 9_223_372_036_854
const SHOWN = 128

export class Decoder {
  readonly turns = new OneByOne()
  readonly counts: Record<Outcome, number> = { stored: 0, null: 0, transient: 0, bad_quality: 0, not_finite: 0, unsupported: 0, unknown: 0, refused: 0 }
  /** Names of metrics of the last message that are of types that are not stored. */
  unsupported: string[] = []
  private readonly options: DecoderOptions
  private readonly resolver: () => SeriesResolver
  private readonly readers: ProtobufReader[] = []
  private readonly metrics: Metric[] = []
  private readonly value = new Value()
  private series = new RecentMap<string, number>(MAX_SERIES)
  private epoch = -1
  private reason = ''
  private failures = 0
  // Of the message at hand.
  private message!: DecodeMessage
  private session!: Session
  private batch!: WriteBatch
  private table!: TableBatch
  private ref!: MeasurementRef
  private number = 0
  private row = -1
  /** Fields that the message has added. */
  private fresh = 0
  private rowTime = 0n
  private arrival = 0n

  constructor(resolver: () => SeriesResolver, options: DecoderOptions) {
    this.resolver = resolver
    this.options = options
  }

  /** Appends the points of a message, in turns (`turns`). @returns what of it could not be stored. @throws SvcError when nothing could be read. */
  *decode(message: DecodeMessage, batch: WriteBatch): Work<SvcError | undefined> {
    const { session, body } = message
    this.unsupported = []
    if (session.fault !== undefined && session.definitions === undefined) throw session.fault
    if (session.stale) return undefined
    this.session = session
    this.batch = batch
    this.arrival = message.time
    this.failures = 0
    switch (session.type) {
      case 'NDEATH':
        this.state(message, undefined, false, this.arrival)
        for (const device of session.devices) this.state(message, device, false, this.arrival)
        return undefined
      case 'DDEATH':
        this.state(message, session.device, false, this.timeOf(session.time) ?? this.arrival)
        return undefined
      case 'NBIRTH':
      case 'DBIRTH':
        yield* this.points(message, body)
        this.state(message, session.device, true, this.timeOf(session.time) ?? this.arrival)
        break
      default:
        yield* this.points(message, body)
    }
    // That a birth cannot be kept says more than that some of its metrics cannot be stored.
    if (session.fault !== undefined) return session.fault
    if (this.failures > 0)
      return new SvcError(
        'PARTIAL_WRITE',
        `${this.failures} ${this.failures === 1 ? 'metric' : 'metrics'} of the message could not be stored; first: ${this.reason}`,
      )
    return undefined
  }

  private *points(message: DecodeMessage, body: Uint8Array): Work<void> {
    this.open(message)
    this.fresh = 0
    const reader = this.reader(0)
    const metric = this.metric(0)
    try {
      reader.begin(body)
      for (let count = 1; reader.next(); count++) {
        if (reader.field !== METRICS) reader.skip()
        else {
          metric.read(reader)
          const inner = this.take(reader, metric)
          if (inner !== undefined) yield* inner
        }
        if (count % SLICE === 0) yield* this.turn()
      }
    } finally {
      reader.release()
    }
  }

  private *turn(): Work<void> {
    yield
    // Numbers of series and measurements may have been given back meanwhile.
    if (this.resolver().epoch !== this.epoch) this.open(this.message)
  }

  private open(message: DecodeMessage): void {
    const { session, batch } = this
    this.message = message
    this.ref = batch.resolver.measurement(batch.namespace, message.measurement ?? session.device ?? session.node)
    this.table = batch.table(this.ref)
    this.number = this.seriesOf(message, this.ref, session.device)
    this.row = -1
  }

  /** @returns what is to be done with an instance of a template. */
  private take(reader: ProtobufReader, metric: Metric): Work<void> | undefined {
    const { definitions } = this.session
    let known: Definition | undefined
    if (metric.name !== undefined) known = definitions?.byName.get(metric.name)
    else if (metric.alias !== undefined) known = definitions?.aliases.get(metric.alias)
    const name = metric.name ?? known?.name
    if (name === undefined) {
      this.needBirth(() => (metric.alias === undefined ? 'a metric has neither name nor alias' : `no birth has said what alias ${metric.alias} is`))
      return undefined
    }
    if (CONTROL.has(name)) return undefined
    return this.store(reader, metric, name, metric.type === UNKNOWN ? (known?.type ?? UNKNOWN) : metric.type, metric.time ?? this.session.time, 0)
  }

  private store(reader: ProtobufReader, metric: Metric, name: string, declared: number, time: number | undefined, depth: number): Work<void> | undefined {
    const { counts, value } = this
    if (metric.transient) return this.count('transient')
    if (metric.value === TEMPLATE_VALUE) return this.template(reader, metric, name, time, depth)
    if (metric.isNull || metric.value === NO_VALUE) return this.count('null')
    const type = declared === UNKNOWN ? typeOf(metric) : declared
    if (type === UNKNOWN) return this.needBirth(() => `no birth has said of which type "${name.slice(0, SHOWN)}" is`)
    if (!isStored(type)) {
      counts.unsupported++
      if (this.unsupported.length < MAX_REASONS) this.unsupported.push(`${name.slice(0, SHOWN)} (${typeName(type)})`)
      return undefined
    }
    if (metric.quality !== GOOD) return this.count('bad_quality')
    if (!value.set(metric, type)) return this.refuse(() => `"${name.slice(0, SHOWN)}" is ${typeName(type)}, and what was sent is none`)
    if (value.type === 'float64' && !Number.isFinite(value.number)) return this.count('not_finite')
    if (name === '' || RESERVED.has(name) || name.includes('\0') || name.includes('\u0001'))
      return this.refuse(() => `"${name.slice(0, SHOWN)}" can be no name of a field`)
    // An engine refuses the point for either, and with it all other metrics.
    const { maxNameBytes, maxStringBytes } = this.options
    if (name.length * 3 > maxNameBytes && !this.ref.fields.has(name) && Buffer.byteLength(name) > maxNameBytes)
      return this.refuse(() => `"${name.slice(0, SHOWN)}" takes ${Buffer.byteLength(name)} bytes of UTF-8: sparkplug_b.max_name_bytes is ${maxNameBytes}`)
    if (value.type === 'string' && metric.end - metric.start > maxStringBytes)
      return this.refuse(
        () => `the text of "${name.slice(0, SHOWN)}" takes ${metric.end - metric.start} bytes of UTF-8: sparkplug_b.max_string_bytes is ${maxStringBytes}`,
      )
    this.put(reader, metric, name, time)
    return undefined
  }

  private count(outcome: Outcome): undefined {
    this.counts[outcome]++
  }

  private put(reader: ProtobufReader, metric: Metric, name: string, time: number | undefined): void {
    const { value, table } = this
    const existing = table.find(name)
    const declared = this.ref.fields.get(name)?.type
    if (existing === undefined && declared === undefined) {
      const { maxFields } = this.options
      if (this.ref.fields.size + this.fresh >= maxFields || table.columns.length >= maxFields)
        return this.refuse(() => `"${name.slice(0, SHOWN)}" would be one field too many: sparkplug_b.max_fields is ${maxFields}`)
      this.fresh++
    }
    const type = (existing !== undefined && existing.next > 0 ? existing.type : declared) ?? value.type
    if (!value.convert(type)) return this.refuse(() => typeConflict(this.ref.name, name.slice(0, SHOWN), type, value.type).message)
    const nanos = this.timeOf(time)
    if (nanos === undefined && time !== undefined)
      return this.refuse(() => `the time of "${name.slice(0, SHOWN)}", ${time} ms, is beyond the range of 64-bit nanoseconds`)
    const text = type === 'string' ? metric.text(reader) : undefined
    const row = this.rowAt(nanos ?? this.arrival)
    const column = table.column(name, type)
    if (text === undefined) value.store(column, row)
    else {
      const at = this.batch.text(text)
      column.setPair(row, at, this.batch.heap.length - at)
    }
    this.counts.stored++
  }

  /** Members of an instance are fields of its name and theirs. */
  private *template(reader: ProtobufReader, metric: Metric, name: string, time: number | undefined, depth: number): Work<void> {
    // Each member would have a copy of it.
    if (name.length > MAX_PARENT)
      return this.refuse(() => `"${name.slice(0, SHOWN)}" is longer than ${MAX_PARENT} characters, as names of its members would be`)
    if (depth === MAX_DEPTH) return this.refuse(() => `"${name.slice(0, SHOWN)}" has templates that are nested more than ${MAX_DEPTH} deep`)
    const bytes = reader.bytes.subarray(metric.start, metric.end)
    const inner = this.reader(depth + 1)
    const member = this.metric(depth + 1)
    try {
      inner.begin(bytes)
      if (isDefinition(inner)) return
      inner.begin(bytes)
      for (let count = 1; inner.next(); count++) {
        if (count % SLICE === 0) yield* this.turn()
        if (inner.field !== MEMBERS) {
          inner.skip()
          continue
        }
        member.read(inner)
        if (member.name === undefined) {
          this.refuse(() => `a member of "${name.slice(0, SHOWN)}" has no name`)
          continue
        }
        const full = `${name}/${member.name}`
        const declared = member.type === UNKNOWN ? (this.session.definitions?.byName.get(full)?.type ?? UNKNOWN) : member.type
        const further = this.store(inner, member, full, declared === TEMPLATE ? UNKNOWN : declared, member.time ?? time, depth + 1)
        if (further !== undefined) yield* further
      }
    } finally {
      inner.release()
    }
  }

  /** One row for what has the same time. */
  private rowAt(time: bigint): number {
    if (this.row < 0 || this.rowTime !== time) {
      this.row = this.addRow(this.table, this.number, time)
      this.rowTime = time
    }
    return this.row
  }

  private addRow(table: TableBatch, series: number, time: bigint): number {
    return table.addRow(series, Number(BigInt.asIntN(32, time)), Number(BigInt.asIntN(32, time >> 32n)), 0)
  }

  /** Of an edge node or a device. */
  private state(message: DecodeMessage, device: string | undefined, online: boolean, time: bigint): void {
    const { batch, session } = this
    const ref = batch.resolver.measurement(batch.namespace, this.options.stateMeasurement)
    const table = batch.table(ref)
    const series = this.seriesOf(message, ref, device)
    const row = this.addRow(table, series, time)
    table.column('online', 'bool').setBool(row, online)
    if (session.bdSeq !== undefined) table.column('bd_seq', 'int64').setPair(row, session.bdSeq | 0, Math.floor(session.bdSeq / 2 ** 32) | 0)
  }

  private seriesOf({ tags }: DecodeMessage, ref: MeasurementRef, device: string | undefined): number {
    const resolver = this.resolver()
    if (resolver.epoch !== this.epoch) {
      this.series = new RecentMap(MAX_SERIES)
      this.epoch = resolver.epoch
    }
    const { group, node } = this.session
    const own = ['group_id', group, 'edge_node_id', node, ...(device === undefined ? [] : ['device_id', device])]
    const all = withGiven(own, tags)
    const key = `${ref.id}\0${all.join('\0')}`
    let series = this.series.get(key)
    if (series === undefined) {
      series = resolver.series(ref, all)
      this.series.set(key, series)
    }
    return series
  }

  private timeOf(ms: number | undefined): bigint | undefined {
    return ms === undefined || ms > MAX_MS ? undefined : BigInt(ms) * 1_000_000n
  }

  private needBirth(reason: () => string): undefined {
    this.counts.unknown++
    this.fail(reason)
    // Without any definitions the message has asked when it came.
    if (this.session.definitions !== undefined) this.options.missing(this.session)
  }

  private refuse(reason: () => string): undefined {
    this.counts.refused++
    this.fail(reason)
  }

  private fail(reason: () => string): void {
    if (this.failures++ === 0) this.reason = reason()
  }

  private reader(depth: number): ProtobufReader {
    return (this.readers[depth] ??= new ProtobufReader())
  }

  private metric(depth: number): Metric {
    return (this.metrics[depth] ??= new Metric())
  }
}

/** Tags of the topic's rules beside those of the topic's own meaning. @throws INVALID_POINT when they contradict each other. */
function withGiven(own: string[], given: readonly string[]): string[] {
  const all = [...own]
  for (let i = 0; i < given.length; i += 2) {
    const at = own.findIndex((name, j) => j % 2 === 0 && name === given[i])
    if (at < 0) all.push(given[i], given[i + 1])
    else if (own[at + 1] !== given[i + 1])
      throw new SvcError(
        'INVALID_POINT',
        `cannot tag a point with ${given[i]} "${given[i + 1].slice(0, SHOWN)}": its topic says "${own[at + 1].slice(0, SHOWN)}"`,
      )
  }
  return all
}
