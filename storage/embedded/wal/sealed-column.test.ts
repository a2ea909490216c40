/** Encrypted columns in records of the log. */

import type { FieldType } from 'svcdb'
import { Column } from 'svcdb/lib/columns'
import { crc32c } from 'svcdb/lib/files'
import t from 'tap'
import { ByteWriter } from '../../common/log/bytes.ts'
import { realFileSystem } from '../../common/log/file-system.ts'
import { KeyRing } from '../encryption/keys.ts'
import { decodeWrite, encodeWrite, type PendingWrite } from './record.ts'
import { replay } from './replay.ts'

const keys = new KeyRing({ columns: { f: 'k1', s: 'k2', d: 'k1' }, keys: { k1: new Uint8Array(32).fill(1), k2: new Uint8Array(32).fill(2) } })
const NAMES: [string, FieldType][] = [
  ['f', 'float64'],
  ['s', 'string'],
  ['d', 'decimal'],
  ['plain', 'string'],
]
const heap = Buffer.from('SECRET-1SECRET-2OPEN-1OPEN-2')

/** Three rows; the second one lacks the encrypted text. */
function record(sequence: number): PendingWrite {
  const columns = NAMES.map(([name, type]) => new Column(name, type, 4))
  for (let row = 0; row < 3; row++) {
    columns[0].setF64(row, row / 3)
    if (row !== 1) columns[1].setPair(row, row === 0 ? 0 : 8, 8)
    columns[2].setDecimal(row, -5n * 10n ** 20n, 2)
    columns[3].setPair(row, row === 0 ? 16 : 22, 6)
  }
  const fields = NAMES.map(([name, type], id) => ({ id, name, type, scale: type === 'decimal' ? 2 : 0, column: name }))
  return {
    sequence,
    definitions: undefined,
    series: [],
    tables: [{ table: 9, rows: 3, series: Int32Array.of(1, 2, 3), time: new Int32Array(6), columns, fields }],
    heap,
  }
}

function encoded(sequence: number, ring: KeyRing | undefined = keys): Buffer {
  const out = new ByteWriter()
  encodeWrite(out, record(sequence), { writeTags: () => {} }, ring)
  return Buffer.from(out.bytes.subarray(0, out.length))
}

t.test('an encrypted column comes back, and its text is not in the record', async (t) => {
  const bytes = encoded(7)
  t.notOk(bytes.includes('SECRET'))
  t.ok(bytes.includes('OPEN-1'), 'the others are as they were')
  const { tables, heap } = decodeWrite(bytes, 0, bytes.length, keys)
  const [f, s, d] = tables[0].columns
  t.same([...f.f64.subarray(0, 3)], [0, 1 / 3, 2 / 3])
  const text = (row: number): string => Buffer.from(heap.subarray(s.i32[row * 2], s.i32[row * 2] + s.i32[row * 2 + 1])).toString()
  t.same(
    [0, 1, 2].map((row) => s.has(row)),
    [true, false, true],
  )
  t.same([text(0), text(2)], ['SECRET-1', 'SECRET-2'])
  t.same(d.u8.subarray(0, 48), record(7).tables[0].columns[2].u8.subarray(0, 48))
})

t.test('a missing key, another key, and another place', async (t) => {
  const bytes = encoded(7)
  t.throws(() => decodeWrite(bytes, 0, bytes.length), { code: 'ENCRYPTION_KEY_UNAVAILABLE', message: /key "k1"/ })
  const other = new KeyRing({ columns: {}, keys: { k1: new Uint8Array(32), k2: new Uint8Array(32) } })
  t.throws(() => decodeWrite(bytes, 0, bytes.length, other), /does not open with key "k1"/)
  const key = bytes.indexOf('k1')
  for (const [what, at] of Object.entries({ sequence: 1, table: 5, field: key - 3, type: key - 2 })) {
    const moved = Buffer.from(bytes)
    moved[at] ^= 1
    t.throws(() => decodeWrite(moved, 0, moved.length, keys), /does not open/, what)
  }
})

t.test('replay names the key that it lacks, and reports corruption of what does not open', async (t) => {
  const payload = encoded(1)
  const fs = (body: Buffer): typeof realFileSystem => {
    const head = Buffer.alloc(16)
    head.writeUInt32LE(body.length, 0)
    head.writeUInt32LE(crc32c(body, 0, body.length), 4)
    head.writeUInt32LE(8, 8)
    head.writeUInt32LE(crc32c(head, 0, 12), 12)
    const file = Buffer.concat([Buffer.from('SVCWAL01'), head, body])
    return { ...realFileSystem, readdirSync: () => ['000000000001.wal'], readFileSync: () => file }
  }
  let rows = 0
  t.match(
    replay('', 1, fs(payload), (found) => (rows += found.tables[0].rows), keys),
    { records: 1, torn: 0 },
  )
  t.equal(rows, 3)
  t.throws(() => replay('', 1, fs(payload), () => {}), {
    code: 'ENCRYPTION_KEY_UNAVAILABLE',
    message: /cannot replay write-ahead log file "000000000001.wal": .*key "k1"/,
  })
  const changed = Buffer.from(payload)
  changed[changed.indexOf('k2') + 10] ^= 1
  t.throws(() => replay('', 1, fs(changed), () => {}, keys), { code: 'DATABASE_ERROR', message: /offset 8: .*does not open with key "k2"/ })
})
