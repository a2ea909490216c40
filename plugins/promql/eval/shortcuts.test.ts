/** Samples that are read where they are stored, and subqueries that are read series by series, give what all other ways give, bit by bit. */
import t from 'tap'
import { TOO_MANY_SAMPLES } from '../errors.ts'
import { histogram } from '../histogram/testing.ts'
import { MemorySource, parseLabels, StoredSource } from '../testing/memory-source.ts'
import { at, over, type RunOptions } from '../testing/run-query.ts'
import { Annotations } from './annotations.ts'

const seed = Number(process.env.SVC_SEED ?? Date.now() % 1e9)
const MINUTE = 60_000
const HOSTS = 7

let state = seed
const random = (): number => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32
const below = (n: number): number => Math.floor(random() * n)
const pick = <T>(list: readonly T[]): T => list[below(list.length)]

const VALUES: readonly (() => number)[] = [
  () => below(100),
  () => below(100) - 50,
  () => below(1000) / 4,
  () => random() * 100,
  () => pick([0, -0, 1]),
  () => pick([Number.NaN, Infinity, -Infinity, 1, 1e308, -1e308]),
]

function randomSource(): MemorySource {
  const source = new MemorySource(1 + below(5))
  const mixed = random() < 0.2
  for (let host = 0; host < HOSTS; host++) {
    const value = pick(VALUES)
    const samples: Parameters<MemorySource['add']>[1] = []
    const scrape = pick([10_000, 15_000, 60_000])
    const holes = random() < 0.5 ? 0 : random() * 0.8
    for (let time = below(MINUTE); time < 60 * MINUTE; time += random() < 0.9 ? scrape : below(5 * MINUTE)) {
      if (random() < holes) continue
      const dice = mixed ? random() : 1
      if (dice < 0.05) samples.push({ time, value: Number.NaN, histogram: histogram({ count: below(9), sum: below(9), positive: { 1: below(9) } }) })
      else if (dice < 0.1) samples.push({ time, value: Number.NaN, stale: true })
      else samples.push({ time, value: value() })
    }
    source.add(parseLabels(`x{host="h${host}",zone="z${host % 3}"}`), samples)
  }
  return source
}

const FUNCTIONS = ['avg', 'sum', 'min', 'max', 'count', 'present', 'last', 'stddev']

function randomCall(range: string): string {
  const call = random() < 0.2 ? `rate(${range})` : `${pick(FUNCTIONS)}_over_time(${range})`
  return random() < 0.5 ? call : `${pick(['sum', 'max', 'count', 'avg'])} by (zone) (${call})`
}

const randomDuration = (): string => pick(['10s', '1m', '90s', '5m', '17m', '1h'])

async function answers(ways: readonly (readonly [string, MemorySource | StoredSource])[], instant: boolean, step: number, budget: number): Promise<string[]> {
  const out: string[] = []
  for (const [query, source] of ways) {
    const annotations = new Annotations()
    const options: RunOptions = { annotations, step, budgetBytes: budget }
    const lines = await (instant ? at(31.5, query, source, options) : over(3, 3 + step * 9, query, source, options)).catch((error: Error) => [error.message])
    const { warnings, infos } = annotations.texts(query, 10)
    // Series come in no certain order.
    out.push(JSON.stringify([lines.sort(), warnings, infos.map((text) => text.replace(/ \(\d+:\d+\)$/, ''))]))
  }
  return out
}

t.test(`samples where they are stored, SVC_SEED=${seed}`, async (t) => {
  let blocks = 0
  for (let round = 0; round < 400; round++) {
    const source = randomSource()
    const stored = new StoredSource(source, random)
    const query = randomCall(`x[${randomDuration()}]${pick(['', ' offset 30s', ' offset -2m', ' @ 600'])}`)
    const [one, other] = await answers(
      [
        [query, source],
        [query, stored],
      ],
      random() < 0.3,
      pick([1, 1.5, 5]),
      1e9,
    )
    blocks += stored.blocks
    if (one !== other) t.equal(other, one, query)
  }
  t.ok(blocks > 100)
})

t.test(`subqueries series by series, SVC_SEED=${seed}`, async (t) => {
  for (let round = 0; round < 400; round++) {
    const source = randomSource()
    const [op, bound] = [pick(['>', '<', '>=', '<=', '==', '!=']), pick([0, 50, 1, -3.5])]
    const selector = `x${pick(['', '{host=~"h[0-3]"}'])}${pick(['', ' offset 40s'])}`
    // A unary plus changes nothing, and a scalar is no number: both are evaluated as a whole.
    const [streamed, whole] = pick([
      [selector, `+${selector}`],
      [`(${selector} ${op} ${bound})`, `(${selector} ${op} scalar(vector(${bound})))`],
      [`(${bound} ${op} (${selector}))`, `(scalar(vector(${bound})) ${op} (${selector}))`],
    ])
    const window = `[${randomDuration()}:${pick(['10s', '7s', '1m', ''])}]${pick(['', ' offset 1m', ' @ 900'])}`
    const shape = randomCall('RANGE')
    const from = random() < 0.5 ? source : new StoredSource(source, random)
    const ways = [streamed, whole].map((inner) => [shape.replace('RANGE', `(${inner})${window}`), inner === streamed ? from : source] as const)
    const [one, other] = await answers(ways, random() < 0.3, pick([1, 5]), 1e9)
    if (one !== other) t.equal(one, other, ways[0][0])
  }
})

t.test('a long subquery takes the memory of one series', async (t) => {
  const source = new MemorySource()
  const samples = Array.from({ length: 360 }, (_, i) => ({ time: i * 10_000, value: i % 7 }))
  for (let i = 0; i < 100; i++) source.add(parseLabels(`x{i="${i}"}`), samples)
  t.same(await at(59, 'sum(count_over_time((x > 4)[50m:10s]))', source, { budgetBytes: 10_000 }), ['{} 8500'])
})

t.test('a subquery of more steps than memory is refused before anything is made or read', async (t) => {
  const error = { name: 'ExecutionError', message: TOO_MANY_SAMPLES }
  const source = new MemorySource()
  source.add(parseLabels('x'), [{ time: 0, value: 1 }])
  for (const window of ['[1y:1ms]', '[1h:1ms]'])
    for (const inner of ['x', 'x > 4']) await t.rejects(at(59, `count_over_time((${inner})${window})`, source, { budgetBytes: 5e7 }), error, inner + window)
  t.same(await at(1, 'count_over_time(x[1h:1ms])', source, { budgetBytes: 1e8 }), ['{} 60001'])
  await t.rejects(at(1, 'count_over_time(x[1h:1ms])', source, { budgetBytes: 9e7 }), error, 'a row and a block')
  await t.rejects(at(1, 'count_over_time((x > 0)[1h:1ms])', source, { budgetBytes: 1.2e8 }), error, 'a row more, of bounds')
  let read = 0
  const counting = {
    select(request: Parameters<MemorySource['select']>[0]) {
      read++
      return source.select(request)
    },
  }
  await t.rejects(at(59, 'count_over_time(x[1y:1ms])', counting), error)
  t.equal(read, 0)
})
