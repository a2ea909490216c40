import t from 'tap'
import type { SeriesChunk } from './chunks.ts'
import { TimeMerge } from './time-merge.ts'

const chunk = (series: number, times: number[], present?: number[]): SeriesChunk => ({
  series,
  tags: {},
  times: BigInt64Array.from(times, BigInt),
  columns: [{ name: 'v', type: 'float64', values: Float64Array.from(times), ...(present === undefined ? {} : { validity: Uint8Array.from(present) }) }],
})

async function merged(keep: number, chunks: SeriesChunk[]): Promise<[time: number, series: number][]> {
  const merge = new TimeMerge(keep)
  for (const c of chunks) merge.add(c)
  const rows: [number, number][] = []
  await merge.each((c, i) => {
    rows.push([Number(c.times[i]), c.series])
    return rows.length < keep
  })
  return rows
}

t.test('rows come by time and then series, those without a value not at all', async (t) => {
  t.same(await merged(100, [chunk(2, [1, 5]), chunk(0, [5, 6]), chunk(1, [1, 2, 3], [0, 1, 0])]), [
    [1, 2],
    [2, 1],
    [5, 0],
    [5, 2],
    [6, 0],
  ])
  t.same(await merged(100, []), [])
})

t.test('with a limit the first rows are those of a full sort, and few are held', async (t) => {
  let state = 7
  const random = (n: number) => (state = (Math.imul(state, 1103515245) + 12345) >>> 0) % n
  const chunks = Array.from({ length: 300 }, (_, series) =>
    chunk(
      series,
      // Each once, and most of them in several series.
      [...new Set(Array.from({ length: 50 }, () => random(500)))].sort((a, b) => a - b),
    ),
  )
  const all = chunks.flatMap((c) => [...c.times].map((time): [number, number] => [Number(time), c.series])).sort((a, b) => a[0] - b[0] || a[1] - b[1])
  for (const keep of [1, 10, 100]) t.same(await merged(keep, chunks), all.slice(0, keep))
  const merge = new TimeMerge(10)
  let most = 0
  for (const c of chunks) {
    merge.add(c)
    most = Math.max(most, merge.held)
  }
  t.ok(most < 1100, `${most} rows held`)
})

t.test('above so many bytes there is no more room, and what a limit leaves out takes none', async (t) => {
  const texts = (series: number, times: number[]): SeriesChunk => ({
    series,
    tags: {},
    times: BigInt64Array.from(times, BigInt),
    columns: [{ name: 'v', type: 'string', values: times.map(() => 'x'.repeat(10_000)) }],
  })
  const all = new TimeMerge(1000, 500_000)
  t.ok(all.add(texts(0, [1, 2, 3, 4])))
  t.ok(all.bytes > 80_000 && all.bytes < 90_000, 'two bytes a character')
  let taken = 1
  while (all.add(texts(taken, [1, 2, 3, 4]))) taken++
  t.equal(taken, 6)
  const few = new TimeMerge(3, 500_000)
  for (let series = 0; series < 100; series++) t.ok(few.add(texts(series, [100 - series, 200])), `${series}`)
  const same = new TimeMerge(3, 500_000)
  for (let series = 100; series > 0; series--) t.ok(same.add(texts(series, [1])), `${series}`)
  const first: number[] = []
  await same.each(({ series }) => first.push(series) < 3)
  t.same(first, [1, 2, 3])
  const numbers = new TimeMerge(1e9, 100_000)
  t.ok(
    numbers.add(
      chunk(
        0,
        Array.from({ length: 6000 }, (_, i) => i),
      ),
    ),
  )
  t.notOk(numbers.add(chunk(1, [7, 8, 9].concat(Array.from({ length: 400 }, (_, i) => 10 + i)))))
})

t.test('of chunks with a few rows of those that are wanted, no more is held', async (t) => {
  const has = (series: number, row: number): boolean => series % 3 !== 0 || row % 4 === 1
  const texts = (series: number): SeriesChunk => {
    const times = BigInt64Array.from({ length: 1000 }, (_, row) => BigInt(series + row * 2))
    const values = Array.from(times, (time) => `${time}`.padEnd(1000, '.'))
    const validity = Uint8Array.from(times, (_, row) => Number(has(series, row)))
    return { series, tags: {}, times, columns: [{ name: 'v', type: 'string', values, ...(series % 3 === 0 ? { validity } : {}) }] }
  }
  const merge = new TimeMerge(10, 100_000)
  const all: { time: number; series: number }[] = []
  for (let series = 0; series < 50; series++) {
    t.ok(merge.add(texts(series)), `series ${series}`)
    for (let row = 0; row < 1000; row++) if (has(series, row)) all.push({ time: series + row * 2, series })
  }
  t.ok(merge.bytes < 100_000, `${merge.bytes} bytes`)
  const found: { time: number; series: number }[] = []
  await merge.each(({ series, times, columns: [{ values }] }, row) => {
    t.equal(Number.parseInt(values[row] as string, 10), Number(times[row]))
    return found.push({ time: Number(times[row]), series }) < 10
  })
  t.same(found, all.sort((a, b) => a.time - b.time || a.series - b.series).slice(0, 10))
})
