import { readFileSync } from 'node:fs'
import { Dictionary, Field, Int32, List, makeVector, type RecordBatch, Schema, Table, tableFromIPC, tableToIPC, Utf8, vectorFromArray } from 'apache-arrow'
import t from 'tap'
import type { SvcError } from '../errors/index.ts'
import { ArrowEncoder, schemaMessage } from './encoder.ts'
import { recordBatchHeader } from './header.ts'
import { DICTIONARY_BATCH, readMessage } from './layout.ts'
import { ArrowReader } from './reader.ts'
import { ALL_COLUMNS, allTypesChunk, ipcStream, messagesOf } from './testing.ts'
import { arrowSchema } from './types.ts'

/** Streams that pyarrow 26 wrote: 40 rows, every fourth without values, in batches of 16. */
const stored = (name: string): Uint8Array => readFileSync(new URL(`testcases/${name}.arrows`, import.meta.url))

async function batchesOf(stream: Uint8Array): Promise<RecordBatch[]> {
  const [schema, ...messages] = messagesOf(stream)
  const reader = new ArrowReader(schema.header)
  const batches: RecordBatch[] = []
  for (const { header, body } of messages) batches.push(...[(await reader.read(header, body)) ?? []].flat())
  return batches
}

/** Rows as plain text, so that every type compares by value. */
function shown(batches: readonly RecordBatch[]): string[] {
  const plain = (_: string, each: unknown): unknown =>
    typeof each === 'bigint' ? `${each}` : each instanceof Map ? [...each] : ArrayBuffer.isView(each) ? Array.from(each as Uint8Array, String) : each
  return batches.flatMap((batch) =>
    Array.from({ length: batch.numRows }, (_, i) =>
      JSON.stringify(
        batch.schema.fields.map((_, at) => batch.getChildAt(at)!.get(i)),
        plain,
      ),
    ),
  )
}

t.test('what the encoder writes is read as it was', async (t) => {
  for (const dictionaries of [false, true]) {
    const encoder = new ArrowEncoder(ALL_COLUMNS, { dictionaries, maxRows: 30 })
    const stream = ipcStream([encoder.schemaMessage(), ...encoder.push(allTypesChunk(100)), ...encoder.flush()])
    const table: Table = tableFromIPC(stream)
    const batches = await batchesOf(stream)
    t.strictSame(shown(batches), shown(table.batches))
    t.strictSame(
      batches[0].schema.fields.map(({ type }) => String(type)),
      arrowSchema(ALL_COLUMNS, dictionaries).fields.map(({ type }) => String(type)),
    )
  }
})

t.test('every type that pyarrow sends', async (t) => {
  const batches = await batchesOf(stored('all-types-plain'))
  t.strictSame(
    batches.map(({ numRows }) => numRows),
    [16, 16, 8],
  )
  const { schema } = batches[0]
  t.equal(schema.metadata.get('from'), 'pyarrow')
  t.equal(schema.fields.find(({ name }) => name === 'utf8')!.metadata.get('role'), 'field')
  const at = (name: string, row: number): unknown => batches[row >> 4].getChild(name)!.get(row & 15)
  for (const { name } of schema.fields) if (name !== 'i64') t.equal(at(name, 3), null, `${name} is missing in row 3`)
  t.strictSame([at('i8', 0), at('u64', 1), at('i64', 39), at('f16', 5), at('f32', 21), at('f64', 22)], [-5, 2n ** 64n - 2n, 39n, 2.5, 5.25, 2.2])
  t.strictSame(
    [at('bool', 16), at('bool', 17), at('utf8', 38), at('large', 20), at('view', 5), at('view', 38)],
    [true, false, 'text 38 é', 'large 20', 'vvvvv', 'v'.repeat(38)],
  )
  t.strictSame([at('dict', 22), at('dict8', 38)], ['host 2', 'r'])
  t.strictSame(Buffer.from(at('bytes_view', 37) as Uint8Array).toString(), 'b'.repeat(37))
  t.strictSame([...(at('fixed', 30) as Uint8Array)], [30, 1, 2])
  for (const name of ['d32', 'd64', 'd128'])
    t.strictSame(
      [...(at(name, 0) as Uint32Array)].map((word) => word | 0),
      [-20, -1, -1, -1],
      name,
    )
  t.strictSame([...(at('d256', 38) as Uint32Array)], [18, 0, 0, 0, 0, 0, 0, 0])
  t.strictSame(
    [String(schema.fields.find(({ name }) => name === 'large')!.type), String(schema.fields.find(({ name }) => name === 'view')!.type)],
    ['Utf8', 'Utf8'],
  )
  t.strictSame(JSON.stringify([at('list', 17), at('large_list', 17), at('fsl', 17), at('struct', 17)]), '[[17,17],["x","x"],[17,18],{"a":17,"b":"17"}]')
})

t.test('unions, as flightsql-dbapi binds parameters, and of rows of several types', async (t) => {
  t.strictSame(shown(await batchesOf(stored('unions'))), ['["3",0.5,"h1",["0","255"],true]'])
  const [batch] = await batchesOf(stored('unions-of-rows'))
  t.strictSame([...batch.getChild('u')!], ['a', 1n, 'b', null])
  const [schema, { header, body }] = messagesOf(stored('unions-of-rows'))
  const damaged = async (at: number, value: number): Promise<unknown> => {
    const copy = Uint8Array.from(body)
    copy[at] = value
    return new ArrowReader(schema.header).read(header, copy)
  }
  await t.rejects(damaged(0, 3), { code: 'BAD_REQUEST', message: /row 0 is of type 3, which its union does not have/ })
  await t.rejects(damaged(0, 255), { code: 'BAD_REQUEST', message: /row 0 is of type -1/ })
  await t.rejects(damaged(8, 2), { code: 'BAD_REQUEST', message: /row 0 is at 2 of 2 values of its type/ })
  await t.rejects(damaged(11, 128), { code: 'BAD_REQUEST', message: /row 0 is at -2147483648 of 2 values/ })
})

t.test('compressed batches hold the same', async (t) => {
  const plain = shown(await batchesOf(stored('all-types-plain')))
  t.strictSame(shown(await batchesOf(stored('all-types-lz4'))), plain)
  t.strictSame(shown(await batchesOf(stored('all-types-zstd'))), plain)
  const [long] = await batchesOf(stored('long-lz4'))
  t.equal(long.numRows, 400)
  for (const row of [0, 6, 7, 399]) t.equal(long.getChild('s')!.get(row), `abcabcabcabd${row % 7}`.repeat(20))
})

t.test('what is compressed is unpacked while others have their turn', async (t) => {
  let turns = 0
  setImmediate(() => turns++)
  await batchesOf(stored('all-types-zstd'))
  t.equal(turns, 1)
})

t.test('dictionaries that grow and that are replaced', async (t) => {
  const texts = async (name: string): Promise<unknown[][]> => (await batchesOf(stored(name))).map((batch) => [...batch.getChild('d')!])
  t.strictSame(await texts('dictionary-delta'), [
    ['a', 'b', 'a'],
    ['c', 'b', 'a'],
    ['d', null, 'c'],
  ])
  t.strictSame(await texts('dictionary-replaced'), [
    ['a', 'b', 'a'],
    ['x', 'x'],
  ])
})

t.test('columns that share a dictionary', async (t) => {
  const type = new Dictionary(new Utf8(), new Int32(), 7)
  const first = vectorFromArray(['a', 'b', 'a'], type)
  const second = makeVector({ type, length: 3, nullCount: 0, data: Int32Array.of(1, 1, 0), dictionary: first.data[0].dictionary! })
  const batches = await batchesOf(tableToIPC(new Table({ first, second }), 'stream'))
  t.strictSame(shown(batches), ['["a","b"]', '["b","b"]', '["a","a"]'])
  t.equal(batches[0].schema.fields[0].type.dictionary, batches[0].schema.fields[1].type.dictionary)
})

t.test('a body that lies anywhere in memory', async (t) => {
  const stream = stored('all-types-plain')
  const shifted = new Uint8Array(stream.length + 3)
  shifted.set(stream, 3)
  t.strictSame(shown(await batchesOf(shifted.subarray(3))), shown(await batchesOf(stream)))
})

t.test('a dictionary that did not come', async (t) => {
  const [schema, , batch] = messagesOf(stored('dictionary-replaced'))
  await t.rejects(new ArrowReader(schema.header).read(batch.header, batch.body), {
    code: 'BAD_REQUEST',
    message: /column "d" is corrupt: row 0 refers to entry 0 of a dictionary that has 0/,
  })
})

t.test('an entry of a dictionary that is no value', async (t) => {
  const [batch] = await batchesOf(stored('dictionary-nulls'))
  const tags = batch.data.children[0]
  t.equal(tags.nullCount, 3)
  t.strictSame(
    [0, 1, 2, 3, 4].map((row) => tags.getValid(row)),
    [true, false, false, false, true],
  )
  t.strictSame([...batch.getChild('tag')!], ['x', null, null, null, 'z'])
})

t.test('messages that are out of place', async (t) => {
  const [schema, batch] = messagesOf(stored('long-lz4'))
  const reader = new ArrowReader(schema.header)
  await t.rejects(reader.read(schema.header, new Uint8Array(0)), { code: 'BAD_REQUEST', message: /a record batch was expected, and a schema came/ })
  t.throws(() => new ArrowReader(batch.header), { code: 'BAD_REQUEST', message: /a schema was expected, and a record batch came/ })
  t.throws(() => new ArrowReader(new Uint8Array(0)), {
    code: 'BAD_REQUEST',
    message: /header of message 1 is corrupt: the reference to its first table lies at byte 0 of 0/,
  })
  await t.rejects(reader.read(batch.header, batch.body.subarray(8)), { code: 'BAD_REQUEST', message: /announces a body of/ })
})

t.test('limits', async (t) => {
  const [schema, batch] = messagesOf(stored('long-lz4'))
  await t.rejects(new ArrowReader(schema.header, { maxRows: 399 }).read(batch.header, batch.body), { code: 'BAD_REQUEST', message: /at most 399 are allowed/ })
  await t.rejects(new ArrowReader(schema.header, { maxBytes: 50_000 }).read(batch.header, batch.body), { code: 'BAD_REQUEST', message: /too much memory/ })
  t.equal((await new ArrowReader(schema.header, { maxRows: 400, maxBytes: 200_000 }).read(batch.header, batch.body))!.numRows, 400)
})

t.test('limits of a schema', async (t) => {
  const read = (fields: Field[], maxColumns: number) => new ArrowReader(schemaMessage(new Schema(fields)).header, { maxColumns }).schema.fields.length
  const list = new Field('list', new List(new Field('item', new Int32(), true)), true)
  t.equal(read([list, list], 4), 2)
  t.throws(() => read([list, list], 3), { code: 'BAD_REQUEST', message: /more than 3 columns/ }, 'with the members of nested ones')
  const described = (entries: number) => new Field('x', new Int32(), true, new Map(Array.from({ length: entries }, (_, i) => [`key ${i}`, 'value'])))
  t.equal(read([described(8)], 1), 1)
  t.throws(() => read([described(100)], 1), { code: 'BAD_REQUEST', message: /more parts than are allowed/ })
  t.equal(read([described(100)], 4), 1)
  t.throws(() => read([new Field('x'.repeat(1_100_000), new Int32(), true)], 1), { code: 'BAD_REQUEST', message: /the header of a message has \d+ bytes/ })
  const reader = new ArrowReader(schemaMessage(new Schema([list])).header, { maxColumns: 2 })
  await t.rejects(reader.read(new Uint8Array(1_100_000), new Uint8Array(0)), { code: 'BAD_REQUEST', message: /the header of a message has 1100000 bytes/ })
})

t.test('offsets and lengths that lead out of the batch', async (t) => {
  const encoder = new ArrowEncoder([{ name: 'x', type: 'Utf8' }])
  const schema = encoder.schemaMessage()
  const [batch] = [...encoder.push({ rows: 3, columns: [{ values: ['aa', 'bb', 'cc'] }] }), ...encoder.flush()]
  const refusal = async (change: (offsets: Int32Array) => void): Promise<string> => {
    const body = Uint8Array.from(batch.body)
    change(new Int32Array(body.buffer, 0, 4))
    try {
      await new ArrowReader(schema.header).read(batch.header, body)
      return 'none'
    } catch (error) {
      return (error as SvcError).code + (error as Error).message
    }
  }
  t.equal(await refusal(() => {}), 'none')
  t.match(await refusal((offsets) => void (offsets[1] = 5)), /BAD_REQUEST.*do not ascend/)
  t.match(await refusal((offsets) => void (offsets[0] = -1)), /BAD_REQUEST.*do not ascend/)
  t.match(await refusal((offsets) => void (offsets[3] = 7)), /BAD_REQUEST.*reach 7 in 6/)
})

t.test('dictionaries of a stream take no more memory than a batch may', async (t) => {
  const [schema, first, , delta] = messagesOf(stored('dictionary-delta'))
  const kinds = [first, delta].map(({ header }) => readMessage(header).kind)
  t.strictSame(kinds, [DICTIONARY_BATCH, DICTIONARY_BATCH])
  const inMegabyte = (body: Uint8Array): Uint8Array => {
    const large = new Uint8Array(1_000_000)
    large.set(body)
    return large.subarray(0, body.length)
  }
  const reader = new ArrowReader(schema.header, { maxBytes: 5_000_000 })
  for (let i = 0; i < 20; i++) await reader.read(first.header, inMegabyte(first.body))
  for (let i = 0; i < 4; i++) await reader.read(delta.header, inMegabyte(delta.body))
  await t.rejects(reader.read(delta.header, inMegabyte(delta.body)), { code: 'BAD_REQUEST', message: /dictionaries of the stream take too much memory/ })
})

t.test('buffers that overlap', async (t) => {
  const schema = new ArrowEncoder(['a', 'b'].map((name) => ({ name, type: 'Int64' }))).schemaMessage()
  const header = recordBatchHeader({ rows: 1000, nodes: [1000, 0, 1000, 0], buffers: [0, 0, 0, 8000, 0, 0, 0, 8000], bodyLength: 8000 })
  const refused = { code: 'BAD_REQUEST', message: /buffers of 16000 bytes in a body of 8000/ }
  await t.rejects(new ArrowReader(schema.header).read(header, new Uint8Array(8000)), refused)
})
