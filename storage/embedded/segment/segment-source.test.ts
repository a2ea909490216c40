/** Segments of more rows than are collected at once, against a plain sort of the same rows. */
import { join } from 'node:path'
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet'
import { compressors } from 'hyparquet-compressors'
import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { type FieldSpec, TestDatabase, type TestMeasurement, type TestPoint } from '../testing/engine-state.ts'

const START = 1_700_000_000_000_000_000n

interface Row {
  measurement: number
  series: number
  time: bigint
  fields: TestPoint['fields']
}

/** Rows as a segment has them: sorted, and of equal (series, time) each field's last value. */
function merged(rows: readonly Row[]): Row[] {
  const byKey = new Map<string, Row>()
  for (const row of rows) {
    const key = `${row.series} ${row.time}`
    byKey.set(key, { ...row, fields: { ...byKey.get(key)?.fields, ...row.fields } })
  }
  return [...byKey.values()].sort((a, b) => a.measurement - b.measurement || a.series - b.series || (a.time < b.time ? -1 : 1))
}

/** Writes rounds of points and compares the segment of them all. */
async function check(
  db: TestDatabase,
  measurements: TestMeasurement[],
  rounds: readonly { m: number; point: TestPoint }[][],
  stored: (value: unknown) => unknown,
) {
  const rows: Row[] = []
  for (const round of rounds) {
    for (const [m, measurement] of measurements.entries()) {
      const points = round.filter((one) => one.m === m).map(({ point }) => point)
      if (points.length > 0) db.write(measurement, points)
      for (const { tags = {}, time, fields } of points) rows.push({ measurement: measurement.def.id, series: db.series(measurement, tags), time, fields })
    }
  }
  const [segment] = await db.flush()
  const file = await asyncBufferFromFile(join(db.dataDir, segment.file))
  const found = await parquetReadObjects({ file, compressors, parsers: { timestampFromNanoseconds: (ns: bigint) => ns } as never })
  const fields = segment.columns.map(({ name }) => name)
  const text = (values: unknown[]): string => values.map((value) => String(value ?? null)).join(' ')
  const expected = merged(rows)
  return {
    segment,
    found: found.map((row) => text([row._measurement ?? expected[0].measurement, row._series, row._time, ...fields.map((field) => row[field])])),
    expected: expected.map((row) => text([row.measurement, row.series, row.time, ...fields.map((field) => stored(row.fields[field]))])),
  }
}

t.test('a shared table: series of uneven length, rows of one time side by side', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const measurements = [2, 0, 1].map((n) => db.measurement(`m${n}`, { value: 'float64' }, { shared: 1 }))
  const random = seeded(1)
  const rounds = Array.from({ length: 240 }, (_, step) =>
    Array.from({ length: 400 }, (_, host) => host)
      .filter((host) => host % 7 !== 0 || step % (host + 2) === 0)
      .map((host) => ({
        m: host % 3,
        point: { tags: { host: String(host) }, time: START + BigInt(step) * 10_000_000_000n, fields: { value: Math.round(random() * 1e6 - 5e5) / 100 } },
      })),
  )
  const { segment, found, expected } = await check(db, measurements, rounds, (value) => Math.round((value as number) * 100))
  t.strictSame(segment.columns[0].encoding, { kind: 'scaled', scale: 2 })
  t.ok(found.length > 80_000, `${found.length} rows`)
  t.equal(
    found.findIndex((row, i) => row !== expected[i]),
    -1,
  )
  t.equal(found.length, expected.length)
})

t.test('late rows, duplicates and fields that are missing, of all widths', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const spec: FieldSpec = { f: 'float64', wide: 'float64', i: 'int64', b: 'bool', s: 'string', d: { decimal: 0 } }
  const m = db.measurement('m', spec)
  const random = seeded(2)
  const rounds = Array.from({ length: 30 }, (_, step) =>
    Array.from({ length: 2500 }, () => {
      const late = random() < 0.2 ? Math.floor(random() * 20) : 0
      const fields: TestPoint['fields'] = { f: Math.round(random() * 100) }
      if (random() < 0.5) fields.wide = Math.round(random() * 2 ** 40)
      if (random() < 0.5) fields.i = BigInt(Math.round(random() * 2 ** 50))
      if (random() < 0.5) fields.b = random() < 0.5
      if (random() < 0.5) fields.s = 'text'.repeat(Math.floor(random() * 6))
      if (random() < 0.5) fields.d = BigInt(Math.round(random() * 1e6))
      if (random() < 0.1) delete fields.f
      if (Object.keys(fields).length === 0) fields.i = 0n
      return { m: 0, point: { tags: { host: String(Math.floor(random() * 2000)) }, time: START + BigInt(step - late) * 1_000_000_000n, fields } }
    }),
  )
  const { segment, found, expected } = await check(db, [m], rounds, (value) => value)
  t.strictSame(
    segment.columns.map(({ encoding }) => encoding.kind),
    ['scaled', 'scaled', 'plain', 'plain', 'plain', 'plain'],
  )
  t.ok(found.length > 40_000, `${found.length} rows`)
  t.equal(
    found.findIndex((row, i) => row !== expected[i]),
    -1,
  )
  t.equal(found.length, expected.length)
})
