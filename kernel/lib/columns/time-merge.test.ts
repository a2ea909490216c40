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
      Array.from({ length: 50 }, () => random(10_000)).sort((a, b) => a - b),
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
