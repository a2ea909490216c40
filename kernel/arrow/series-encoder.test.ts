import { type Table, tableFromIPC } from 'apache-arrow'
import t from 'tap'
import { SeriesEncoder } from './series-encoder.ts'
import { ipcStream } from './testing.ts'

t.test('rows of series become one table of time, tags and fields', async (t) => {
  const encoder = new SeriesEncoder(
    ['host', 'rack'],
    [
      { name: 'usage', type: 'float64' },
      { name: 'up', type: 'bool' },
      { name: 'price', type: 'decimal', scale: 2 },
      { name: 'note', type: 'string' },
    ],
  )
  const messages = [
    encoder.schemaMessage(),
    ...encoder.push({
      series: 1,
      tags: { host: 'a', rack: '7' },
      times: BigInt64Array.of(1n, 2n, 3n),
      columns: [
        { name: 'usage', type: 'float64', values: Float64Array.of(1, 2, 3), validity: Uint8Array.of(1, 0, 1) },
        { name: 'up', type: 'bool', values: Uint8Array.of(1, 0, 1) },
        { name: 'other', type: 'float64', values: Float64Array.of(9, 9, 9) },
      ],
    }),
    ...encoder.push(
      {
        series: 2,
        tags: { host: 'b' },
        times: BigInt64Array.of(1n, 2n),
        columns: [
          { name: 'price', type: 'decimal', scale: 2, values: [150n, -1n] },
          { name: 'note', type: 'string', values: ['first', null] },
        ],
      },
      0,
      2,
    ),
    ...encoder.flush(),
  ]
  const table: Table = tableFromIPC(ipcStream(messages))
  const column = (name: string): unknown[] => [...table.getChild(name)!]
  t.strictSame(
    table.schema.fields.map(({ name, type }) => `${name} ${type}`),
    ['_time Timestamp<NANOSECOND>', 'host Utf8', 'rack Utf8', 'usage Float64', 'up Bool', 'price Decimal[38e+2]', 'note Utf8'],
  )
  t.strictSame(column('host'), ['a', 'a', 'a', 'b', 'b'])
  t.strictSame(column('rack'), ['7', '7', '7', null, null])
  t.strictSame(column('usage'), [1, null, 3, null, null])
  t.strictSame(column('up'), [true, false, true, null, null])
  t.strictSame(column('note'), [null, null, null, 'first', null])
  t.strictSame(
    column('price').map((value) => (value === null ? null : (value as Uint32Array)[0] | 0)),
    [null, null, null, 150, -1],
  )
})
