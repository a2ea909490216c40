/** What a slice comes to beside what the target has: over a reader that knows points only. */
import type { FieldInfo, Reader } from 'svcdb'
import t from 'tap'
import { definitionOf } from './definition.ts'
import job, { type Done, type RecomputedPart } from './recompute-job.ts'

const HOUR = 3_600_000_000_000n

type Row = [hour: number, fields: Record<string, number>]

/** Of one series each. */
function readerOf(measurements: Record<string, readonly Row[]>): Reader {
  const namesOf = (rows: readonly Row[]) => [...new Set(rows.flatMap(([, fields]) => Object.keys(fields)))]
  const fieldOf = (name: string): FieldInfo => ({ name, type: 'float64' })
  const schema = Object.entries(measurements).map(([name, rows]) => ({ name, tags: [], fields: namesOf(rows).map(fieldOf) }))
  return {
    schema: async () => schema,
    measurements: async (_: string, only: string) => schema.filter(({ name }) => name === only),
    async *scan({ measurement, start, end, fields }: { measurement: string; start?: bigint; end?: bigint; fields?: string[] }) {
      const rows = (measurements[measurement] ?? []).filter(
        ([hour]) => BigInt(hour) * HOUR >= (start ?? 0n) && (end === undefined || BigInt(hour) * HOUR < end),
      )
      if (rows.length === 0) return
      const columns = namesOf(rows)
        .filter((name) => fields === undefined || fields.includes(name))
        .map((name) => ({
          ...fieldOf(name),
          values: Float64Array.from(rows, ([, fields]) => fields[name] ?? 0),
          validity: Uint8Array.from(rows, ([, fields]) => (fields[name] === undefined ? 0 : 1)),
        }))
      yield { series: 1, tags: {}, times: BigInt64Array.from(rows, ([hour]) => BigInt(hour) * HOUR), columns }
    },
  } as unknown as Reader
}

async function recomputed(measurements: Record<string, readonly Row[]>, hours: number, maxBuckets: number): Promise<RecomputedPart> {
  const definition = definitionOf({ name: 'r', source_measurement: 'a', target_measurement: 'b', every: '1h', aggregations: ['max'] }, '', 0n)
  const args = { namespace: '', source: 'a', parts: [{ definition, start: 0n, end: BigInt(hours) * HOUR, maxBuckets }], maxBytes: 1e9, sql: false, plain: [] }
  const result = await job(readerOf(measurements), args, { signal: new AbortController().signal } as never)
  if (result.state !== 'done') throw new Error('it takes too much')
  return result.parts[0]
}

const staleHours = ({ stale }: Done): number[] => stale.flatMap(({ times }) => [...times].map((time) => Number(time / HOUR)))

t.test('a row of the target is left as it is where it has all that was computed, and nothing beside', async (t) => {
  const source: Row[] = [
    [0, { v: 1, w: 5 }],
    [1, { v: 2, w: 6 }],
    [2, { v: 3 }],
    [3, { v: 4 }],
  ]
  const target: Row[] = [
    [0, { v_max: 1, w_max: 5 }],
    [1, { v_max: 2 }],
    [2, { v_max: 3, w_max: 7 }],
    [3, { v_max: 5 }],
  ]
  const done = (await recomputed({ a: source, b: target }, 4, 10)) as Done
  t.same([...done.unchanged], [1, 0, 0, 0])
  t.same(staleHours(done), [2], 'one that has lost a field is written anew')
})

t.test('rows of the target are found behind a gap in which neither it nor the source has any', async (t) => {
  for (const source of [[], [[0, { v: 1 }]], [[900, { v: 1 }]]] as Row[][]) {
    const done = (await recomputed({ a: source, b: [[100, { v_max: 1 }]] }, 1000, 4)) as Done
    if (source[0]?.[0] === 0) t.same([Number(done.end / HOUR), staleHours(done)], [4, []])
    else t.same([Number(done.end / HOUR), staleHours(done)], [104, [100]])
  }
})
