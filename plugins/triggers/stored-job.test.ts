/** Rows that are stored, on their way to the main thread. */
import { deserialize } from 'node:v8'
import type { JobIo, Reader, SeriesChunk } from 'svcdb'
import t from 'tap'
import { fieldsOf } from './statement/condition.ts'
import { parseStatement } from './statement/parse.ts'
import storedRows from './stored-job.ts'

/** Frames of one measurement with these chunks, each as it arrives, and its bytes. */
async function framesOf(chunks: readonly SeriesChunk[], rows?: number): Promise<{ bytes: number; chunks: SeriesChunk[] }[]> {
  const frames: { bytes: number; chunks: SeriesChunk[] }[] = []
  const reader = {
    schema: async () => [{ name: 'm' }],
    async *scan() {
      yield* chunks
    },
  }
  const io = {
    signal: new AbortController().signal,
    emit: async (bytes: Uint8Array) => void frames.push({ bytes: bytes.length, chunks: deserialize(bytes.subarray(4)) }),
  }
  const sent = await storedRows(reader as unknown as Reader, { namespace: '', measurement: 'm', start: 0n }, io as unknown as JobIo)
  if (rows !== undefined) t.equal(sent, rows)
  return frames
}

t.test('frames are small however wide or large rows are, and have each of them once', async (t) => {
  const rows = 5000
  const times = BigInt64Array.from({ length: rows }, (_, i) => BigInt(i))
  const wide = Array.from({ length: 100 }, (_, c) => ({
    name: `f${c}`,
    type: 'float64' as const,
    values: Float64Array.from(times, (time) => Number(time) + c),
  }))
  const validity = Uint8Array.from(times, (time) => Number(time % 3n === 0n))
  const some = { name: 'some', type: 'int64' as const, values: times.slice(), validity }
  const text = { name: 'text', type: 'string' as const, values: Array.from(times, (time) => `${time}`.padEnd(10_000, 'x')) }
  const frames = await framesOf([
    { series: 1, tags: { host: 'a' }, times, columns: [...wide, some, text] },
    { series: 2, tags: { host: 'b' }, times: times.slice(0, 3), columns: [text] },
  ])
  t.ok(
    frames.every(({ bytes }) => bytes < 1_000_000),
    `bytes: ${frames.map(({ bytes }) => bytes)}`,
  )
  // 102 columns and the time: 636 rows have 65,536 values.
  t.equal(frames.length, Math.ceil(rows / 636), 'nor are they smaller than they may be')
  const all = frames.flatMap(({ chunks }) => chunks)
  const of = (series: number) => all.filter((chunk) => chunk.series === series)
  t.same(
    of(1).flatMap((chunk) => [...chunk.times]),
    [...times],
  )
  t.same(
    of(2).flatMap((chunk) => [...chunk.times]),
    [0n, 1n, 2n],
    'a row of texts alone is a row',
  )
  for (const chunk of of(1)) {
    const [first] = chunk.times
    t.equal(chunk.columns[7].values[0], Number(first) + 7)
    t.same(chunk.columns[100].validity, validity.slice(Number(first), Number(first) + chunk.times.length))
    t.same(chunk.columns[101].values, [], 'texts are not handed over')
  }
})

t.test('frames of many narrow rows are full, and the job says how many rows they have', async (t) => {
  const rows = 10_000
  const times = BigInt64Array.from({ length: rows }, (_, i) => BigInt(i))
  const frames = await framesOf([{ series: 1, tags: {}, times, columns: [{ name: 'v', type: 'float64', values: new Float64Array(rows) }] }], rows)
  t.same(
    frames.map(({ chunks }) => chunks.reduce((sum, chunk) => sum + chunk.times.length, 0)),
    [4096, 4096, 1808],
  )
})

t.test('only fields that conditions look at are read, unless tags alone may do', async (t) => {
  const fields = (condition: string) => {
    const created = parseStatement(`CREATE TRIGGER c ON m WHEN ${condition}`, { maxBytes: 1000, maxComparisons: 10, maxDepth: 5, maxChannels: 1 })
    return created.kind === 'create' && created.condition.kind !== 'signals' ? fieldsOf(created.condition) : 'none'
  }
  t.same(fields('v > 1'), ['v'])
  t.same(fields("v > 1 AND (host = 'a' OR w < 2)"), ['v', 'w'])
  t.same(fields('v > 1 OR w > 1'), ['v', 'w'])
  t.equal(fields("host = 'a'"), undefined)
  t.equal(fields("v > 1 OR host = 'a'"), undefined)
  t.equal(fields("(v > 1 OR host = 'a') AND rack <> 'b'"), undefined)
  const asked: unknown[] = []
  const reader = {
    schema: async () => [{ name: 'm' }],
    async *scan(request: unknown) {
      asked.push(request)
      yield* []
    },
  }
  const args = { namespace: '', measurement: 'm', start: 0n, fields: ['v'] }
  await storedRows(reader as unknown as Reader, args, { signal: new AbortController().signal } as unknown as JobIo)
  t.same(asked, [args])
})
