/** Rows that set few of very many fields, of all types and with rows of one time among them: a flush writes what was there before it. */
import type { FieldType } from 'svcdb'
import t from 'tap'
import { Random } from '../../conformance/random.ts'
import { closeAndRemove, NOW, openEngine, rowsOf, tempDir } from '../testing/harness.ts'

t.setTimeout(180_000)
const SEED = Number(process.env.SVC_SEED ?? Date.now() % 1_000_000)
/** Half of all values are of these. */
const COMMON = 6
const TYPES: readonly FieldType[] = ['float64', 'int64', 'uint64', 'bool', 'string', 'decimal']

interface Shape {
  rows: number
  fields: number
  /** Values of a row. */
  most: number
}

type Engine = Awaited<ReturnType<typeof openEngine>>

/** Its type, and what kind of values it has, follow from a field's number. */
function writeSome(engine: Engine, random: Random, { rows, fields, most }: Shape): Promise<unknown> {
  const batch = engine.batch('')
  const ref = engine.resolver.measurement('', 'm')
  const series = Array.from({ length: 7 }, (_, i) => engine.resolver.series(ref, ['host', `h${i}`]))
  for (let i = 0; i < rows; i++) {
    const time = NOW + BigInt(random.below(rows / 4)) * 1000n
    const table = batch.tableForRow(ref)
    const row = table.addRow(series[random.below(7)], Number(BigInt.asIntN(32, time)), Number(time >> 32n), i)
    for (let n = 0, wanted = 1 + random.below(most); n < wanted; n++) {
      const field = random.below(random.chance(0.5) ? COMMON : fields)
      const type = TYPES[field % TYPES.length]
      const column = table.column(`f${field}`, type)
      const value = random.below(1000)
      if (type === 'float64') column.setF64(row, field % 4 === 0 ? value / 7 : field % 36 === 6 && value < 100 ? Number.NaN : value / 100)
      else if (type === 'bool') column.setBool(row, value % 2 === 0)
      else if (type === 'decimal') column.setDecimal(row, BigInt(value), 2)
      else if (type === 'string') {
        const at = batch.text(`${value}`.repeat(1 + (value % 9)))
        column.setPair(row, at, batch.heap.length - at)
      } else column.setPair(row, value, type === 'int64' && value % 3 === 0 ? -1 : 0)
    }
  }
  return engine.write(batch, { nonFinite: true })
}

t.test(`a flush writes what was there (seed ${SEED})`, async (t) => {
  const random = new Random(SEED)
  const shapes: Shape[] = [
    { rows: 600, fields: 200, most: 1 },
    { rows: 600, fields: 200, most: 20 },
    // More than are collected at once.
    { rows: 3000, fields: 600, most: 3 },
  ]
  for (const shape of shapes) {
    const dir = tempDir()
    const engine = await openEngine(dir)
    t.teardown(() => closeAndRemove(engine, dir))
    for (let n = 1; n <= 2; n++) {
      await writeSome(engine, random, shape)
      const before = await rowsOf(engine, 'm')
      t.ok(before.length < shape.rows * n * 0.95, 'rows of one time are one')
      await engine.flush()
      t.same(await rowsOf(engine, 'm'), before)
    }
  }
})
