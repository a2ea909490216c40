/**
 * Chunks of 2048 rows (time, tag, double) to record batches, then columns of each kind beside apache-arrow:
 * node kernel/lib/arrow/encoder.bench.ts [million rows]
 */
import {
  AsyncByteQueue,
  type Data,
  type DataType,
  Dictionary,
  type Float64,
  makeBuilder,
  makeData,
  RecordBatch,
  RecordBatchStreamWriter,
  Struct,
  Timestamp,
  tableFromIPC,
  Utf8,
  util,
  vectorFromArray,
} from 'apache-arrow'
import type { SqlChunk, SqlColumn, SqlVector } from '../sql-result/index.ts'
import { ArrowEncoder, type EncoderOptions } from './encoder.ts'
import { END_OF_STREAM, streamPrefix } from './framing.ts'
import { arrowSchema } from './types.ts'

const CHUNK = 2048
const millions = Number(process.argv[2] ?? 20)
const columns: SqlColumn[] = [
  { name: '_time', type: 'Timestamp(ns)' },
  { name: 'host', type: 'Utf8' },
  { name: 'value', type: 'Float64' },
]
const hosts = Array.from({ length: 1000 }, (_, i) => `host_${i}`)
const times = BigInt64Array.from({ length: CHUNK }, (_, i) => 1_700_000_000_000_000_000n + BigInt(i) * 10_000_000_000n)
const values = Float64Array.from({ length: CHUNK }, (_, i) => i / 7)
const mixed = Array.from({ length: CHUNK }, (_, i) => (i * 7919) % hosts.length)
const texts = mixed.map((code) => hosts[code])
const ends = new Int32Array(CHUNK + 1)
for (let i = 0; i < CHUNK; i++) ends[i + 1] = ends[i] + texts[i].length
const validity = Uint8Array.from({ length: CHUNK }, (_, i) => (i % 10 === 0 ? 0 : 1))

const tags: [string, SqlVector][] = [
  ['tag in runs, ENUM', { values: Uint16Array.from({ length: CHUNK }, (_, i) => i >> 9), dictionary: hosts }],
  ['tag mixed, ENUM', { values: Uint16Array.from(mixed), dictionary: hosts }],
  ['tag mixed, bytes', { values: ends, bytes: Buffer.from(texts.join('')) }],
  ['tag mixed, strings', { values: texts }],
]

function measure(name: string, chunk: SqlChunk, options: EncoderOptions): void {
  const rounds = Math.ceil((millions * 1e6) / CHUNK)
  const run = (count: number): number => {
    const encoder = new ArrowEncoder(columns, { prefix: streamPrefix, ...options })
    let bytes = 0
    for (let i = 0; i < count; i++) for (const { framed } of encoder.push(chunk)) bytes += framed!.length
    for (const { framed } of encoder.flush()) bytes += framed!.length
    return bytes
  }
  run(rounds / 10)
  const before = process.cpuUsage()
  const bytes = run(rounds)
  const { user, system } = process.cpuUsage(before)
  const seconds = (user + system) / 1e6
  console.log(`${name.padEnd(34)} ${((rounds * CHUNK) / seconds / 1e6).toFixed(1)} million rows, ${(bytes / seconds / 1e6).toFixed(0)} MB a second`)
}

const chunkWith = (tag: SqlVector, present?: Uint8Array): SqlChunk => ({
  rows: CHUNK,
  columns: [{ values: times }, tag, { values, validity: present }],
})
for (const [name, tag] of tags) measure(name, chunkWith(tag), {})
measure('tag mixed, ENUM, with gaps', chunkWith(tags[1][1], validity), {})
measure('tag mixed, ENUM, to dictionary', chunkWith(tags[1][1]), { dictionaries: true })
for (const maxBytes of [1 << 18, 1 << 19, 1 << 20, 4 << 20, 16 << 20])
  measure(`tag mixed, ENUM, ${maxBytes >> 10} KiB`, chunkWith(tags[1][1]), { maxBytes, maxRows: 1 << 20 })

/** The bytes of a stream, message by message, each as one run of bytes. */
type Write = (columns: readonly SqlColumn[], chunk: SqlChunk, count: number, dictionaries: boolean, emit: (message: Uint8Array) => void) => void

const ours: Write = (columns, chunk, count, dictionaries, emit) => {
  const encoder = new ArrowEncoder(columns, { prefix: streamPrefix, dictionaries })
  emit(encoder.schemaMessage().framed!)
  for (let i = 0; i < count; i++) for (const { framed } of encoder.push(chunk)) emit(framed!)
  for (const { framed } of encoder.flush()) emit(framed!)
  emit(END_OF_STREAM)
}

class Sink extends AsyncByteQueue {
  chunks: Uint8Array[] = []

  override write(chunk: Uint8Array): void {
    this.chunks.push(chunk)
  }

  take(): Uint8Array {
    const whole = Buffer.concat(this.chunks)
    this.chunks = []
    return whole
  }
}

const hostVector = vectorFromArray(hosts, new Utf8())

/** Values one at a time, what apache-arrow has for values that are no vector of Arrow's yet; but its builder takes timestamps as milliseconds in a number. */
function built(type: DataType, vector: SqlVector): Data {
  if (type instanceof Timestamp) return wrapped(type, vector)
  const { values, validity, dictionary } = vector
  const builder = makeBuilder({ type, nullValues: [null] })
  for (let i = 0; i < CHUNK; i++) builder.append(validity?.[i] === 0 ? null : dictionary === undefined ? values[i] : dictionary[values[i] as number])
  return builder.finish().flush()
}

/** The vectors' memory as it is, where its layout is Arrow's. */
function wrapped(type: DataType, vector: SqlVector): Data {
  const { values, validity, dictionary, bytes } = vector
  const nullBitmap = validity === undefined ? undefined : util.packBools(validity)
  if (type instanceof Dictionary) return makeData({ type, data: new Int32Array(values as ArrayLike<number>), dictionary: hostVector, nullBitmap })
  if (bytes !== undefined) return makeData({ type: type as Utf8, valueOffsets: values as Int32Array, data: bytes, nullBitmap })
  if (dictionary !== undefined || Array.isArray(values)) return built(type, vector)
  return makeData({ type: type as Float64, data: values as Float64Array, nullBitmap })
}

const apache =
  (dataOf: (type: DataType, vector: SqlVector) => Data): Write =>
  (columns, chunk, count, dictionaries, emit) => {
    const schema = arrowSchema(columns, dictionaries)
    const sink = new Sink()
    const writer = new RecordBatchStreamWriter({ autoDestroy: false }).reset(sink, schema)
    const type = new Struct(schema.fields)
    for (let i = 0; i < count; i++) {
      const children = chunk.columns.map((vector, at) => dataOf(schema.fields[at].type, vector))
      writer.write(new RecordBatch(schema, makeData({ type, length: CHUNK, nullCount: 0, children })))
      emit(sink.take())
    }
    writer.finish()
    emit(sink.take())
  }

const WAYS: readonly [string, Write][] = [
  ['svcdb/lib/arrow', ours],
  ['apache-arrow, vectors', apache(wrapped)],
  ['apache-arrow, builders', apache(built)],
]
const integers: SqlVector = { values: BigInt64Array.from({ length: CHUNK }, (_, i) => BigInt(i) * 977n) }
const doubles: SqlVector = { values }
const gaps: SqlVector = { values, validity }
const KINDS: readonly [string, [type: string, SqlVector][], dictionaries?: boolean][] = [
  ['Int64', [['Int64', integers]]],
  ['Float64', [['Float64', doubles]]],
  ['Float64 with nulls', [['Float64', gaps]]],
  ['Timestamp(ns)', [['Timestamp(ns)', { values: times }]]],
  ['tag to dictionary', [['Utf8', tags[1][1]]], true],
  ['tag written out', [['Utf8', tags[1][1]]]],
  ['text of UTF-8', [['Utf8', tags[2][1]]]],
  ['text of strings', [['Utf8', tags[3][1]]]],
  [
    'time, tag written out, 8 Float64',
    [
      ['Timestamp(ns)', { values: times }],
      ['Utf8', tags[1][1]],
      ...Array.from({ length: 8 }, (_, i): [string, SqlVector] => ['Float64', i < 4 ? doubles : gaps]),
    ],
  ],
  [
    'time, tag to dictionary, 8 Float64',
    [
      ['Timestamp(ns)', { values: times }],
      ['Utf8', tags[1][1]],
      ...Array.from({ length: 8 }, (_, i): [string, SqlVector] => ['Float64', i < 4 ? doubles : gaps]),
    ],
    true,
  ],
]

/** Million rows a second of processor time. */
function rate(write: Write, kind: (typeof KINDS)[number]): number {
  const [, columns, dictionaries = false] = kind
  const named = columns.map(([type], i): SqlColumn => ({ name: `c${i}`, type }))
  const chunk = { rows: CHUNK, columns: columns.map(([, vector]) => vector) }
  const count = Math.ceil((millions * 1e4) / CHUNK)
  let rows = 0
  let bytes = 0
  const before = process.cpuUsage()
  for (let used = 0; ; ) {
    write(named, chunk, count, dictionaries, (message) => {
      bytes += message.length
    })
    rows += count * CHUNK
    const { user, system } = process.cpuUsage(before)
    used = user + system
    if (used > 100_000 && bytes > 0) return rows / used
  }
}

/** Both say the same, or there is nothing to compare. */
function check([name, columns, dictionaries = false]: (typeof KINDS)[number], write: Write): void {
  const named = columns.map(([type], i): SqlColumn => ({ name: `c${i}`, type }))
  const read = (by: Write): string => {
    const messages: Uint8Array[] = []
    by(named, { rows: CHUNK, columns: columns.map(([, vector]) => vector) }, 2, dictionaries, (message) => messages.push(message))
    return String(tableFromIPC(Buffer.concat(messages)))
  }
  if (read(write) !== read(ours)) throw new Error(`cannot compare ${name}: the streams differ`)
}

const median = (numbers: readonly number[]): number => numbers.toSorted((a, b) => a - b)[numbers.length >> 1]
console.log(`\n${'million rows a second'.padEnd(34)} ${WAYS.map(([name]) => name.padStart(24)).join('')}`)
for (const kind of KINDS) {
  const rates: number[][] = WAYS.map(() => [])
  const ways = WAYS.map(([, write], i) => [write, rates[i]] as const).filter(
    ([write]) => write !== WAYS[2][1] || kind[1].every(([, { bytes }]) => bytes === undefined),
  )
  for (const [write] of ways) check(kind, write)
  // The first round is to warm up.
  for (let round = 0; round < 4; round++)
    for (const [write, taken] of ways)
      if (round > 0) taken.push(rate(write, kind))
      else rate(write, kind)
  console.log(`${kind[0].padEnd(34)} ${rates.map((taken) => (taken.length === 0 ? '-' : median(taken).toFixed(1)).padStart(24)).join('')}`)
}
