/** Reading the newest samples of a series: in windows, and no more of them than are enough. */
import type { Reader, SeriesChunk } from 'svcdb'
import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import read, { type ReadArgs } from './read-job.ts'

const SECOND = 1_000_000_000n
const HOUR = 3600n * SECOND
const args: ReadArgs = { namespace: '', measurement: 'cpu', fields: ['load'], tags: {}, exact: false, most: 1000, plain: true }
const io = { signal: new AbortController().signal, emit: async () => {} }

/** A series with a value at each of the times, ascending; notes what is read. */
function readerOf(times: readonly bigint[]): { reader: Reader; scanned: { rows: number; windows: number } } {
  const scanned = { rows: 0, windows: 0 }
  const within = ({ start, end }: { start?: bigint; end?: bigint }) =>
    times.filter((time) => (start === undefined || time >= start) && (end === undefined || time < end))
  const tags = { length: 1, at: () => ['host', 'a'], keys: () => ['host'], column: () => ({ codes: Int32Array.of(0), texts: ['a'] }) }
  const reader = {
    schema: async () => [{ name: 'cpu', fields: [{ name: 'load', type: 'float64' }] }],
    async samples(request: { start?: bigint; end?: bigint }) {
      const newest = within(request).at(-1)
      const found = newest === undefined ? [] : [Number(newest / 1_000_000n)]
      return {
        series: Int32Array.of(7),
        tags,
        async *blocks() {
          yield { first: 0, starts: Int32Array.of(0, found.length), times: Float64Array.from(found), values: Float64Array.from(found) }
        },
      }
    },
    async *scan(request: { start?: bigint; end?: bigint }): AsyncGenerator<SeriesChunk> {
      const found = within(request)
      scanned.rows += found.length
      scanned.windows++
      for (let i = 0; i < found.length; i += 4096) {
        const part = found.slice(i, i + 4096)
        const columns = [{ name: 'load', type: 'float64' as const, values: Float64Array.from(part, (time) => Number(time / SECOND)) }]
        yield { series: 7, tags: { host: 'a' }, times: BigInt64Array.from(part), columns }
      }
    },
  }
  return { reader: reader as unknown as Reader, scanned }
}

t.test('of a long range no more is read than is enough, and the answer says that there is more', async (t) => {
  // A sample a second for two days.
  const times = Array.from({ length: 172_800 }, (_, i) => BigInt(i) * SECOND)
  const { reader, scanned } = readerOf(times)
  const found = await read(reader, args, io)
  t.same(found?.times, BigInt64Array.from(times.slice(-1000)))
  t.same(found?.columns[0].at(0), 171_800)
  t.ok((found?.found ?? 0) > 1000, 'more than were used')
  t.ok(scanned.rows < 5000, `${scanned.rows} of 172800 rows are looked at`)
})

t.test('a range that has less is read whole, across gaps, in few windows', async (t) => {
  const times = [-9000n * HOUR, 0n, 1n, 5n * HOUR, 5n * HOUR + 1n, 5n * HOUR + 999_999n, 9000n * HOUR]
  const { reader, scanned } = readerOf(times)
  t.match(await read(reader, args, io), { found: 7, tags: { host: 'a' }, times: BigInt64Array.from(times) })
  t.ok(scanned.windows < 10, `${scanned.windows} windows`)
  t.equal(await read(reader, { ...args, start: 9001n * HOUR }, io), undefined)
  t.match(await read(reader, { ...args, start: 1n, end: 5n * HOUR + 1n }, io), { found: 2, times: BigInt64Array.of(1n, 5n * HOUR) })
  t.match(await read(reader, { ...args, most: 0 }, io), { times: BigInt64Array.of(9000n * HOUR) })
})

t.test('windows come to the same as one scan', async (t) => {
  const seed = Math.floor(Math.random() * 1e6)
  const random = seeded(seed)
  for (let round = 0; round < 50; round++) {
    const length = 1 + Math.floor(random() * 3000)
    const scale = 10 ** (1 + random() * 15)
    const times = [...new Set(Array.from({ length }, () => BigInt(Math.floor((random() - 0.5) * scale))))].sort((a, b) => (a < b ? -1 : 1))
    const pick = () => times[Math.floor(random() * times.length)] + BigInt(Math.floor(random() * 3)) - 1n
    const range = { ...(random() < 0.5 ? { start: pick() } : {}), ...(random() < 0.5 ? { end: pick() } : {}) }
    const most = 1 + Math.floor(random() * 1000)
    const all = times.filter((time) => (range.start === undefined || time >= range.start) && (range.end === undefined || time < range.end))
    const found = await read(readerOf(times).reader, { ...args, ...range, most }, io)
    t.same(Array.from(found?.times ?? []), all.slice(-most), `seed ${seed}, round ${round}`)
    t.ok((found?.found ?? 0) > most === all.length > most, 'whether there is more')
  }
})
