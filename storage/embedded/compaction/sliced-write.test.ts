/** A merge that DuckDB has no memory for goes on in smaller parts, and loses and repeats nothing. */
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { SvcError } from 'svcdb/lib/errors'
import t, { type Test } from 'tap'
import { MEASUREMENT_COLUMN } from '../segment/segment-source.ts'
import { TestDatabase } from '../testing/engine-state.ts'
import { type MergeSlice, sliceConditions } from './merge-slices.ts'
import { SlicedWrite } from './sliced-write.ts'

type Key = readonly [measurement: number | null, series: number, time: number]

const WHOLE: MergeSlice = { from: undefined, to: undefined }

/** @param room rows that there is memory for, but where nothing else runs. */
async function sliced(t: Test, keys: readonly Key[], room: number, shared = false) {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const { duck, config } = await db.target()
  const segments = join(db.dataDir, 'segments')
  for (const folder of [config.tempDir, segments]) mkdirSync(folder, { recursive: true })
  const values = keys.map(([measurement, series, time]) => `(${measurement ?? 'NULL'}, ${series}, ${time})`).join(', ')
  const files = `(SELECT m::INTEGER AS ${MEASUREMENT_COLUMN}, s::INTEGER AS _series, make_timestamp_ns(t::BIGINT) AS _time FROM (VALUES ${values}) v(m, s, t))`
  const { alone } = duck.turns
  let isAlone = false
  duck.turns.alone = (body) =>
    alone.call(duck.turns, () => {
      isAlone = true
      return body().finally(() => {
        isAlone = false
      })
    }) as ReturnType<typeof body>
  const within = (slice: MergeSlice): string => ['true', ...sliceConditions(slice, shared)].join(' AND ')
  /** Rows of each slice that was tried. */
  const tried: number[] = []
  const take = async (slice: MergeSlice): Promise<number> => {
    const [{ n }] = await duck.run(`SELECT count(*)::DOUBLE AS n FROM ${files} WHERE ${within(slice)}`)
    tried.push(Number(n))
    if (Number(n) > room && !isAlone) throw new SvcError('OVERLOADED', 'no', { cause: new Error('Out of Memory Error: so it is') })
    return Number(n)
  }
  const listed = async (from: string, order: string): Promise<Key[]> => {
    const rows = await duck.run(`SELECT ${MEASUREMENT_COLUMN} AS m, _series AS s, epoch_ns(_time)::DOUBLE AS t FROM ${from} ORDER BY ${order}`)
    return rows.map(({ m, s, t }): Key => [m === null ? null : Number(m), Number(s), Number(t)])
  }
  const write = new SlicedWrite({ duck, files, shared, columns: 1, keyBytes: 0, sliceBytes: 0 })
  return {
    tried,
    async written(...slices: MergeSlice[]): Promise<Key[]> {
      const path = join(segments, 'merged.parquet')
      rmSync(path, { force: true })
      const rows = await write.write(slices, path, config.tempDir, async (slice, to) => {
        t.notOk(existsSync(to), 'nothing of an earlier try is in the way')
        writeFileSync(to, 'begun')
        const count = await take(slice)
        await duck.run(`COPY (SELECT * FROM ${files} WHERE ${within(slice)} ORDER BY ALL) TO '${to}' (FORMAT PARQUET)`)
        return count
      })
      t.equal(rows, keys.length)
      return listed(`read_parquet('${path}', file_row_number = true)`, 'file_row_number')
    },
    async read(...slices: MergeSlice[]): Promise<Key[]> {
      const found: Key[] = []
      const rows = await write.read(slices, async (slice) => {
        const count = await take(slice)
        found.push(...(await listed(`${files} WHERE ${within(slice)}`, 'ALL')))
        return count
      })
      t.equal(rows, keys.length)
      return found
    },
  }
}

const own = (series: number, time: number): Key => [null, series, time]
const some = Array.from({ length: 16 }, (_, i) => own(i >> 2, i & 3))

for (const way of ['written', 'read'] as const) {
  t.test(`halves until there is memory, in order: ${way}`, async (t) => {
    const merge = await sliced(t, some.toReversed(), 4)
    t.same(await merge[way](WHOLE), some)
    t.same(merge.tried, [16, 8, 4, 4, 4, 4], 'no two are tried at a size that there was no memory for')
  })

  t.test(`slices behind one that was too large are not tried at its size: ${way}`, async (t) => {
    const merge = await sliced(t, some, 5)
    const cuts = [
      [1n, 2n],
      [3n, 2n],
    ]
    t.same(await merge[way]({ from: undefined, to: cuts[0] }, { from: cuts[0], to: cuts[1] }, { from: cuts[1], to: undefined }), some)
    t.same(merge.tried, [6, 3, 3, 2, 2, 2, 2, 2])
  })

  t.test(`rows of one key are taken together, with all the memory: ${way}`, async (t) => {
    const keys = [...Array.from({ length: 5 }, () => own(1, 1)), own(1, 2)]
    const merge = await sliced(t, keys, 3)
    t.same(await merge[way](WHOLE), keys)
    t.same(merge.tried, [6, 5, 5, 1])
  })

  t.test(`rows that have no place are not divided: ${way}`, async (t) => {
    const keys: Key[] = [
      [1, 1, 1],
      [1, 2, 1],
      [2, 3, 1],
      [null, 2, 2],
    ]
    const merge = await sliced(t, keys, 2, true)
    t.same(await merge[way](WHOLE), keys)
    t.same(merge.tried, [4, 4])
  })
}

t.test('what fails for another reason is not tried again', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const { duck } = await db.target()
  const write = new SlicedWrite({
    duck,
    files: '(SELECT 1::INTEGER AS _series, make_timestamp_ns(1) AS _time)',
    shared: false,
    columns: 1,
    keyBytes: 0,
    sliceBytes: 0,
  })
  let tries = 0
  const fail = (): Promise<number> => {
    tries++
    return Promise.reject(new SvcError('OVERLOADED', 'no', { cause: new Error('the disk') }))
  }
  await t.rejects(write.read([WHOLE], fail), { message: 'no' })
  t.equal(tries, 1)
})
