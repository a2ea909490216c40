/** Thousands of measurements whose rows lie in one segment: it is read once for all of them, not once for each. */
import t, { type Test } from 'tap'
import { TestDatabase, type TestPoint } from '../../testing/engine-state.ts'
import type { Snapshot } from '../../threads/state.ts'
import type { RelationContext } from '../relation.ts'
import { selectActive, selectSamples } from './select.ts'

const MEASUREMENTS = 50
const SERIES = 3
const START = 1_700_000_000_000_000_000n
const STEP = 1_000_000_000n
const STEPS = 4n
const END = START + STEPS * STEP

interface Subject {
  context: RelationContext
  snapshot: Snapshot
  /** How often the segment was asked for. */
  reads: () => number
}

const nameOf = (i: number): string => `metric_${i}`
const sampleOf = (i: number, s: number, step: bigint): number => i * 100 + s * 10 + Number(step)
/** Some series have rows in the memtable only. */
const isFlushed = (i: number, s: number): boolean => (i + s) % 5 !== 0

async function filled(t: Test): Promise<Subject> {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const write = (flushed: boolean): void => {
    for (let step = 0n; step < STEPS; step++)
      for (let i = 0; i < MEASUREMENTS; i++)
        for (let s = 0; s < SERIES; s++)
          if (isFlushed(i, s) === flushed)
            db.write(db.measurement(nameOf(i), { value: 'float64' }, { shared: 7 }), [
              { tags: { host: `h${s}` }, time: START + step * STEP, fields: { value: sampleOf(i, s, step) } },
            ])
  }
  write(true)
  const segments = await db.flush()
  t.equal(segments.length, 1, 'they have one segment')
  write(false)
  let reads = 0
  const verifier = { ensure: async () => void reads++, ensureSources: async () => {}, require: () => {} }
  return { context: { ...(await db.context()), verifier }, snapshot: db.state.snapshotNow() as Snapshot, reads: () => reads }
}

const request = (i: number, newestOnly: boolean) => ({
  namespace: 'default',
  measurement: nameOf(i),
  field: 'value',
  start: START,
  end: END,
  ...(newestOnly ? { newestOnly } : {}),
})

t.test('which series have rows', async (t) => {
  const { context, snapshot, reads } = await filled(t)
  for (let i = 0; i < MEASUREMENTS; i++) {
    const { tags } = await selectActive(context, snapshot, request(i, false), undefined)
    t.same(
      Array.from({ length: tags.length }, (_, s) => tags.at(s)[1]).sort(),
      Array.from({ length: SERIES }, (_, s) => `h${s}`),
      nameOf(i),
    )
  }
  t.equal(reads(), 1)
})

for (const newestOnly of [true, false]) {
  t.test(newestOnly ? 'their newest samples' : 'all of their samples', async (t) => {
    const { context, snapshot, reads } = await filled(t)
    for (let i = 0; i < MEASUREMENTS; i++) {
      const { tags, blocks } = await selectSamples(context, snapshot, request(i, newestOnly), undefined)
      const found = new Map<string, string>()
      for await (const { first, starts, values } of blocks())
        for (let s = 0; s + 1 < starts.length; s++) found.set(tags.at(first + s)[1], values.subarray(starts[s], starts[s + 1]).join(' '))
      for (let s = 0; s < SERIES; s++) {
        const all = Array.from({ length: Number(STEPS) }, (_, step) => sampleOf(i, s, BigInt(step)))
        t.equal(found.get(`h${s}`), (newestOnly ? all.slice(-1) : all).join(' '), `${nameOf(i)} h${s}`)
      }
    }
    t.equal(reads(), 1)
  })
}

t.test('the newest samples of a small segment are found without a statement', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const own = db.measurement('own', { a: 'float64', b: 'float64' })
  const values = [1.5, Number.NaN, Number.NEGATIVE_INFINITY]
  const point = (s: number, time: bigint, fields: TestPoint['fields']): TestPoint => ({ tags: { host: `h${s}` }, time, fields })
  const points = values.flatMap((a, s) => [point(s, START, { a: 9 }), point(s, START + STEP + 7n, { a, b: s })])
  db.write(own, points)
  await db.flush()
  const context = await db.context()
  let statements = 0
  const refuse = () => {
    statements++
    throw new Error('a statement is begun')
  }
  const duck = Object.create(context.duck, { connect: { value: refuse } })
  const newest = async (field: string): Promise<number[]> => {
    const wanted = { namespace: 'default', measurement: 'own', field, start: START, end: END, newestOnly: true as const }
    const { blocks } = await selectSamples({ ...context, duck }, db.state.snapshotNow() as Snapshot, wanted, undefined)
    const out: number[] = []
    for await (const { values } of blocks()) out.push(...values)
    return out
  }
  t.same(await newest('a'), values)
  t.same(await newest('b'), [0, 1, 2])
  t.equal(statements, 0)
})
