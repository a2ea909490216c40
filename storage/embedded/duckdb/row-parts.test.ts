import type { SqlChunk } from 'svcdb'
import t from 'tap'
import { TestDatabase } from '../testing/engine-state.ts'
import { readParts } from './row-parts.ts'
import { resultColumn } from './vectors.ts'

const decoder = new TextDecoder()
/** Texts of 4 kB and short ones, missing ones, numbers, lists and the codes of an ENUM. */
const QUERY = `SELECT CASE WHEN i % 3 > 0 THEN repeat(chr((97 + i % 26)::INTEGER), i % 7 * 600) END AS a, a AS b, i AS n, CASE WHEN i % 5 > 0 THEN i END AS m, [i, i + 1] AS l,
  (['x', 'y', 'z'])[1 + i % 3]::ENUM('x', 'y', 'z') AS e FROM range(2048) r(i)`

const valuesOf = ({ rows, columns }: SqlChunk): unknown[][] =>
  Array.from({ length: rows }, (_, row) =>
    columns.map(({ values, validity, bytes, dictionary }) => {
      if (validity?.[row] === 0) return null
      if (dictionary !== undefined) return dictionary[values[row] as number]
      return bytes === undefined ? values[row] : decoder.decode(bytes.subarray(values[row] as number, values[row + 1] as number))
    }),
  )

t.test('parts have the rows of the chunk, and a mebibyte of texts at most', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const connection = await (await db.context()).duck.connect()
  for (const textBytes of [false, true]) {
    const result = await connection.stream(QUERY)
    const columns = Array.from({ length: result.columnCount }, (_, i) => resultColumn(result.columnLogicalType(i).logical_type))
    const chunk = await result.fetchChunk()
    if (chunk === null) throw new Error('no rows')
    const parts = [...readParts(chunk, columns, textBytes)]
    t.ok(parts.length > 4, `${parts.length} parts`)
    const rows = parts.flatMap(valuesOf)
    const wanted = Array.from({ length: 2048 }, (_, i) => {
      const text = i % 3 > 0 ? String.fromCharCode(97 + (i % 26)).repeat((i % 7) * 600) : null
      return [text, text, BigInt(i), i % 5 > 0 ? BigInt(i) : null, [BigInt(i), BigInt(i + 1)], 'xyz'[i % 3]]
    })
    t.same(rows, wanted, `textBytes ${textBytes}`)
    for (const part of parts) t.ok(valuesOf(part).reduce((sum, [a, b]) => sum + String(a ?? '').length + String(b ?? '').length, 0) <= 1 << 20)
    t.throws(() => [...readParts(chunk, columns, textBytes, 7000)], { code: 'SQL_ERROR', message: /a row of its result has about 7200 bytes/ })
    await result.fetchChunk()
  }
  ;(await db.context()).duck.release(connection, false)
})
