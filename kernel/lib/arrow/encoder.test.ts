import { type Table, tableFromIPC } from 'apache-arrow'
import t from 'tap'
import type { SqlChunk } from '../sql-result/index.ts'
import { ArrowEncoder, type EncoderOptions } from './encoder.ts'
import { END_OF_STREAM, frame, streamPrefix } from './framing.ts'
import { ALL_COLUMNS, allTypesChunk, ipcStream } from './testing.ts'

function encode(chunks: readonly SqlChunk[], options: EncoderOptions = {}, columns = ALL_COLUMNS): Table {
  const encoder = new ArrowEncoder(columns, options)
  const messages = [encoder.schemaMessage()]
  for (const chunk of chunks) messages.push(...encoder.push(chunk))
  return tableFromIPC(ipcStream([...messages, ...encoder.flush()]))
}

/** The value as text, so that every type compares by value. */
const shown = (value: unknown): string =>
  JSON.stringify(value, (_, each) => (typeof each === 'bigint' ? `${each}n` : ArrayBuffer.isView(each) ? Array.from(each as Uint8Array, String) : each)) ??
  'undefined'

t.test('every type and its missing values come back as they went in', async (t) => {
  const table = encode([allTypesChunk(50)])
  t.equal(table.numRows, 50)
  const at = (name: string, row: number): unknown => table.getChild(name)!.get(row)
  t.strictSame([at('i8', 0), at('u16', 1), at('i32', 4), at('f32', 1), at('f64', 1), at('bool', 1), at('bool', 4)], [-3, 65_534, -4, 0.25, 0.1, true, false])
  t.strictSame([at('i64', 0), at('u64', 1)], [-(2n ** 63n), 2n ** 64n - 2n])
  t.strictSame([at('text', 1), at('tag', 1), at('tag', 3), at('tag', 6), at('heap', 4)], ['text 1 😀', 'ü', 'x'.repeat(40), '', 'wert 4 é'])
  t.strictSame(Buffer.from(at('bytes', 4) as Uint8Array), Buffer.from([4, 0, 255]))
  t.equal(shown(at('list', 3)), shown([3n, null, 7n].map((value) => (value === null ? null : value))))
  t.equal(shown(at('struct', 1)), '{"a, (b)":1,"c":["c1",null]}')
  t.equal(shown(at('map', 0)), '{"k0":0}')
  for (const { name } of ALL_COLUMNS) t.equal(at(name, 2), null, `${name} is missing in the third row`)
})

t.test('missing values leave zeros behind, not what a vector held there', async (t) => {
  const table = encode([{ rows: 2, columns: [{ values: Float64Array.of(1, 12_345), validity: Uint8Array.of(1, 0) }] }], {}, [{ name: 'v', type: 'Float64' }])
  t.strictSame([...(table.data[0].children[0].values as Float64Array)], [1, 0])
})

t.test('many chunks make few batches, whose rows keep their order', async (t) => {
  const plain = encode([allTypesChunk(700), allTypesChunk(301), allTypesChunk(2500)], { maxRows: 1000 })
  t.strictSame(
    plain.batches.map(({ numRows }) => numRows).every((rows) => rows <= 1000),
    true,
  )
  t.equal(plain.numRows, 3501)
  const once = encode([allTypesChunk(2500)])
  for (const { name } of ALL_COLUMNS) {
    for (const row of [0, 1, 2, 999, 1000, 2498, 2499])
      t.equal(shown(plain.getChild(name)!.get(1001 + row)), shown(once.getChild(name)!.get(row)), `${name} ${row}`)
  }
})

t.test('text as numbers in a dictionary reads the same, also when the dictionary grows between batches', async (t) => {
  const chunks = [allTypesChunk(10), allTypesChunk(900), allTypesChunk(2000)]
  const [plain, coded] = [encode(chunks), encode(chunks, { dictionaries: true, maxRows: 500 })]
  for (const name of ['text', 'tag', 'heap']) {
    t.match(String(coded.getChild(name)!.type), /Dictionary/)
    for (let row = 0; row < plain.numRows; row += 7) {
      if (coded.getChild(name)!.get(row) !== plain.getChild(name)!.get(row)) t.fail(`${name} ${row}`)
    }
  }
})

t.test('a dictionary that grows large is begun anew', async (t) => {
  const values = Array.from({ length: 200_000 }, (_, i) => `entry ${i}`)
  const encoder = new ArrowEncoder([{ name: 'x', type: 'Utf8' }], { dictionaries: true, maxRows: 50_000 })
  const messages = [encoder.schemaMessage(), ...encoder.push({ rows: values.length, columns: [{ values }] }), ...encoder.flush()]
  const largest = Math.max(...messages.map(({ body }) => body.length))
  t.ok(largest < 120_000 * 20, `largest message ${largest}`)
  t.equal(tableFromIPC(ipcStream(messages)).getChild('x')!.get(0) !== null, true)
})

t.test('a body holds no more than maxBytes, and a larger row alone', async (t) => {
  const encoder = new ArrowEncoder([{ name: 'x', type: 'Utf8' }], { maxBytes: 10_000 })
  const values = Array.from({ length: 100 }, (_, i) => (i === 50 ? 'L'.repeat(50_000) : 's'.repeat(300)))
  const messages = [...encoder.push({ rows: 100, columns: [{ values }] }), ...encoder.flush()]
  t.ok(messages.length >= 4)
  t.equal(messages.filter(({ body }) => body.length > 10_100).length, 1)
  t.strictSame(
    [...tableFromIPC(ipcStream([encoder.schemaMessage(), ...messages])).getChild('x')!].map((text) => String(text).length),
    values.map((text) => text.length),
  )
})

t.test('a part of a chunk', async (t) => {
  const encoder = new ArrowEncoder(ALL_COLUMNS)
  const messages = [encoder.schemaMessage(), ...encoder.push(allTypesChunk(20), 4, 9), ...encoder.flush()]
  const table = tableFromIPC(ipcStream(messages))
  t.equal(table.numRows, 5)
  t.strictSame([table.getChild('text')!.get(0), table.getChild('heap')!.get(0), table.getChild('tag')!.get(3)], ['text 4 😀', 'wert 4 é', 'x'.repeat(40)])
})

t.test('no rows make no batch', async (t) => {
  const encoder = new ArrowEncoder(ALL_COLUMNS)
  t.strictSame(encoder.push({ rows: 0, columns: ALL_COLUMNS.map(() => ({ values: [] })) }), [])
  t.strictSame(encoder.flush(), [])
})

t.test('with a prefix each message can be sent as one run of bytes', async (t) => {
  const encoder = new ArrowEncoder(ALL_COLUMNS, { prefix: streamPrefix })
  const messages = [encoder.schemaMessage(), ...encoder.push(allTypesChunk(30)), ...encoder.flush()]
  for (const message of messages) {
    t.strictSame(Buffer.from(message.framed!), Buffer.from(frame(message)))
    t.equal(message.framed!.byteLength, message.framed!.buffer.byteLength)
  }
  t.equal(tableFromIPC(Buffer.concat([...messages.map(({ framed }) => framed!), END_OF_STREAM])).numRows, 30)
})

t.test('long runs, short runs and lone values of a dictionary', async (t) => {
  const dictionary = ['a', 'bcd', '', 'ümlaut']
  const codes = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 0, 3, 3, 3, 3, 3, 3, 3, 3, 3]
  const table = encode([{ rows: codes.length, columns: [{ values: Uint8Array.from(codes), dictionary }] }], {}, [{ name: 'x', type: 'Utf8' }])
  t.strictSame(
    [...table.getChild('x')!],
    codes.map((code) => dictionary[code]),
  )
})
