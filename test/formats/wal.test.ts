/** The worked example of docs/formats/wal.md is what the code reads and writes. */
import { readFileSync } from 'node:fs'
import { Column } from 'svcdb/lib/columns'
import { crc32c } from 'svcdb/lib/files'
import t from 'tap'
import { ByteWriter } from '../../storage/common/log/bytes.ts'
import { realFileSystem } from '../../storage/common/log/file-system.ts'
import { type ChangeRecord, encodeChange } from '../../storage/embedded/wal/change-record.ts'
import type { SeriesDefinition } from '../../storage/embedded/wal/logged-series.ts'
import { decodeWrite, encodeWrite, type WriteRecord } from '../../storage/embedded/wal/record.ts'
import { replay } from '../../storage/embedded/wal/replay.ts'

const page = readFileSync(new URL('../../docs/formats/wal.md', import.meta.url), 'utf8')
const example = Buffer.from((/```hex\n([^`]*)```/.exec(page)?.[1] ?? '').replace(/\s/g, ''), 'hex')

function exampleRecord(): Omit<WriteRecord, 'series'> & { series: SeriesDefinition[] } {
  const v = { id: 0, name: 'v', type: 'float64' as const, scale: 0, column: 'v' }
  const n = { id: 1, name: 'n', type: 'int64' as const, scale: 0, column: 'n' }
  const floats = new Column('v', 'float64', 1)
  floats.setF64(0, 1.5)
  const ints = new Column('n', 'int64', 1)
  ints.setPair(0, 2, 0)
  return {
    sequence: 1,
    definitions: {
      measurements: [{ id: 0, namespace: '', name: 'cpu' }],
      fields: [v, n].map((field) => ({ measurement: 0, field })),
      tables: [{ id: 0, measurement: 0 }],
      homes: [{ measurement: 0, table: 0 }],
    },
    series: [{ series: 0, measurement: 0, tags: ['host', 'a'] }],
    tables: [{ table: 0, rows: 1, series: Int32Array.of(0), time: Int32Array.of(1000, 0), columns: [floats, ints], fields: [v, n] }],
    heap: new Uint8Array(0),
  }
}

t.test('the example decodes', async (t) => {
  const records: WriteRecord[] = []
  const fs = { ...realFileSystem, readdirSync: () => ['000000000001.wal'], readFileSync: () => example }
  t.match(
    replay('', 1, fs, (record) => records.push(record)),
    { records: 1, rows: 1, torn: 0 },
  )
  const [record] = records
  const wanted = exampleRecord()
  t.same(record.definitions, wanted.definitions)
  t.same([...record.series], wanted.series)
  const [{ table, series, time, columns, fields }] = record.tables
  t.same({ table, series, time }, { table: 0, series: Int32Array.of(0), time: Int32Array.of(1000, 0) })
  t.same(
    fields.map(({ id, type }) => ({ id, type })),
    [
      { id: 0, type: 'float64' },
      { id: 1, type: 'int64' },
    ],
  )
  t.equal(columns[0].f64[0], 1.5)
  t.same([...columns[1].i32.subarray(0, 2)], [2, 0])
})

t.test('the example is what is written', async (t) => {
  const out = new ByteWriter()
  out.put(Buffer.from('SVCWAL01'))
  const start = out.reserve(16)
  const record = exampleRecord()
  const tags = { writeTags: (to: ByteWriter) => [to.varint(1), ...record.series[0].tags.map((text) => to.text(text))] }
  encodeWrite(out, record, tags)
  out.setU32(start, out.length - start - 16)
  out.setU32(start + 4, crc32c(out.bytes, start + 16, out.length))
  out.setU32(start + 8, 8)
  out.setU32(start + 12, crc32c(out.bytes, start, start + 12))
  const hex = Buffer.from(out.bytes.subarray(0, out.length)).toString('hex')
  t.equal(hex, example.toString('hex'))
})

t.test('changes of what lives decode as they were written', async (t) => {
  const changes: ChangeRecord[] = [
    { kind: 'delete', tombstone: 3, measurement: 7, start: -(2n ** 63n), end: 2n ** 63n - 1n, series: Int32Array.of(1, 5, 1_000_000) },
    { kind: 'delete', tombstone: 4, measurement: 7, start: 1n, end: 2n, series: null },
    { kind: 'drop', tombstone: 5, measurement: 7, deadline: 1_700_000_000_000_000_000n },
    { kind: 'drop', tombstone: 6, measurement: 7, deadline: null },
    { kind: 'restore', measurement: 7 },
    { kind: 'release', series: Int32Array.of(2) },
    {
      kind: 'retention',
      id: 8,
      general: -1n,
      except: [7, 9],
      own: [
        [7, 5n],
        [8, 1_700_000_000_000_000_000n],
      ],
    },
    { kind: 'retention', id: 9, general: null, except: [], own: [[7, -(2n ** 63n) + 1n]] },
  ]
  for (const [i, change] of changes.entries()) {
    const out = new ByteWriter()
    encodeChange(out, i, change)
    t.strictSame(decodeWrite(out.bytes, 0, out.length).change, change)
    t.throws(() => decodeWrite(out.bytes, 0, out.length - 1), 'a record cut short is no record')
    out.u8(0)
    t.throws(() => decodeWrite(out.bytes, 0, out.length), { message: 'the record has 1 bytes too many' })
  }
})

t.test('a write with more than it says, or that says more than it can have, is no record', async (t) => {
  const out = new ByteWriter()
  const record = exampleRecord()
  encodeWrite(out, { ...record, series: [] }, { writeTags: () => {} })
  out.u8(0)
  t.throws(() => decodeWrite(out.bytes, 0, out.length), { message: 'the record has 1 bytes too many' })
  for (const kind of [1, 2]) {
    const vast = new ByteWriter()
    for (const byte of [kind, 1]) vast.u8(byte)
    vast.text(kind === 1 ? '' : '{"kind":"release"}')
    vast.varint(2 ** 28)
    t.throws(() => decodeWrite(vast.bytes, 0, vast.length), { message: /^the record cannot hold 268435456 series/ }, 'before memory is taken for them')
  }
})

t.test('a write that is a backfill says so, with and without definitions', async (t) => {
  const { definitions, ...record } = exampleRecord()
  for (const defined of [definitions, undefined])
    for (const backfill of [true, false]) {
      const out = new ByteWriter()
      encodeWrite(out, { ...record, definitions: defined, series: [], backfill }, { writeTags: () => {} })
      const read = decodeWrite(out.bytes, 0, out.length)
      t.same(read.definitions, defined)
      t.equal(read.backfill === true, backfill)
    }
})
