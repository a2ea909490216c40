/** NaN and infinities in records of the log: their bits, and that a column which holds some says so. */

import { Column } from 'svcdb/lib/columns'
import t from 'tap'
import { ByteWriter } from '../../common/log/bytes.ts'
import { KeyRing } from '../encryption/keys.ts'
import { decodeWrite, encodeWrite } from './record.ts'

const STALE = 0x7ff0000000000002n
const NAN = 0x7ff8000000000001n
const INFINITE = 0x7ff0000000000000n
const NEGATIVE_INFINITE = 0xfff0000000000000n
const HALF = 0x3fe0000000000000n
const ONE = 0x3ff0000000000000n
const NEGATIVE_ZERO = 0x8000000000000000n
const THIRD = 0x3fd5555555555555n

const CASES: { name: string; values: (bigint | undefined)[]; nonFinite: boolean }[] = [
  { name: 'whole numbers', values: [ONE, ONE, ONE], nonFinite: false },
  { name: 'digits', values: [HALF, ONE], nonFinite: false },
  { name: 'all bits of finite numbers', values: [THIRD, NEGATIVE_ZERO, ONE], nonFinite: false },
  { name: 'a marker among whole numbers', values: [ONE, STALE, ONE], nonFinite: true },
  { name: 'a marker first', values: [STALE, ONE], nonFinite: true },
  { name: 'two kinds of NaN', values: [NAN, STALE, NAN, STALE], nonFinite: true },
  { name: 'an infinity first', values: [INFINITE, ONE], nonFinite: true },
  { name: 'an infinity behind digits', values: [HALF, INFINITE], nonFinite: true },
  { name: 'both infinities behind digits', values: [HALF, NEGATIVE_INFINITE, INFINITE, HALF], nonFinite: true },
  { name: 'an infinity alone', values: [NEGATIVE_INFINITE], nonFinite: true },
  { name: 'rows without a value', values: [ONE, undefined, STALE, undefined, NAN], nonFinite: true },
]

function decoded(values: readonly (bigint | undefined)[], keys: KeyRing | undefined): Column {
  const column = new Column('v', 'float64', values.length)
  for (const [row, bits] of values.entries())
    if (bits !== undefined) column.setPair(row, Number(BigInt.asIntN(32, bits)), Number(BigInt.asIntN(32, bits >> 32n)))
  const rows = values.length
  const table = { table: 1, rows, series: new Int32Array(rows), time: new Int32Array(rows * 2), columns: [column] }
  const fields = [{ id: 0, name: 'v', type: 'float64' as const, scale: 0, column: 'v' }]
  const out = new ByteWriter()
  const record = { sequence: 1, definitions: undefined, series: [], tables: [{ ...table, fields }], heap: new Uint8Array(0) }
  encodeWrite(out, record, { writeTags: () => {} }, keys)
  return decodeWrite(out.bytes, 0, out.length, keys).tables[0].columns[0]
}

for (const keys of [undefined, new KeyRing({ columns: { v: 'k' }, keys: { k: new Uint8Array(32).fill(1) } })]) {
  t.test(keys === undefined ? 'in the clear' : 'encrypted', async (t) => {
    for (const { name, values, nonFinite } of CASES) {
      const column = decoded(values, keys)
      const bits = new BigUint64Array(column.buffer)
      t.strictSame(
        values.map((_, row) => (column.has(row) ? bits[row] : undefined)),
        values,
        name,
      )
      t.equal(column.nonFinite, nonFinite, `${name}: ${nonFinite ? 'some' : 'none'} to hide`)
    }
  })
}
