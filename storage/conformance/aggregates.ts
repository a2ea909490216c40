/** Values of windows by groups of series, of readers that have them: what an evaluator would make of the samples. */
import type { AggregateRequest, GroupFunction, WindowFunction } from 'svcdb/lib/columns'
import type { Test } from 'tap'
import { jobModule } from './context.ts'
import type { AggregateAnswer } from './jobs/aggregates.ts'
import type { Life, LifeRule } from './life.ts'
import { bits, f64, i64, NOW, NOW_MS, STALE, type TestPoint, write } from './points.ts'

const SECOND = 1_000_000_000n
const WINDOWS: readonly WindowFunction[] = ['last', 'rate', 'increase', 'delta', 'irate', 'idelta']
const GROUPS: readonly GroupFunction[] = ['sum', 'avg', 'min', 'max', 'count']

/** Series that are counted up every ten seconds, with a reset, a gap and a marker. */
function points(): TestPoint[] {
  return Array.from({ length: 4 }, (_, series) =>
    Array.from({ length: 60 }, (_, i): TestPoint[] => {
      if (i > 20 && i < 28 + series) return []
      const tags = { host: `h${series}`, ...(series === 3 ? {} : { dc: `dc${series % 2}` }) }
      const value = ((i * (series + 1)) % 90) + series
      const time = NOW - 600n * SECOND + BigInt(i * 10 + series) * SECOND
      return [{ measurement: 'm', tags, time, fields: { value: i === 40 && series === 1 ? bits(STALE) : f64(value), n: i64(BigInt(value)) } }]
    }).flat(),
  ).flat()
}

const request: AggregateRequest = {
  ...{ namespace: 'default', measurement: 'm', field: 'value' },
  ...{ start: NOW - 700n * SECOND, end: NOW + SECOND },
  windows: { first: NOW_MS - 480_000, interval: 30_000, count: 18, range: 60_000 },
  ...{ window: 'rate', group: 'sum', tags: ['dc'], without: false, maxCells: 10_000 },
}

async function ask(t: Test, { engine }: Life, more: Partial<AggregateRequest>, what: string): Promise<AggregateAnswer> {
  const answer = await engine.run<AggregateAnswer>(jobModule('aggregates'), { ...request, ...more }).result
  if (answer.found === 'declined') t.comment(`${what}: declined`)
  else if (answer.found !== 'none') t.same(answer.found, answer.expected, what)
  return answer
}

/** Over the points, for readers that have aggregations. */
function rule(body: (t: Test, life: Life) => Promise<void>): LifeRule[1] {
  return async (t, life) => {
    await write(life.engine, points(), { backfill: true, nonFinite: true })
    await life.between()
    const { found } = await ask(t, life, {}, 'sum of rate')
    if (found === 'none') t.pass('its reader has none')
    else await body(t, life)
  }
}

export const aggregateRules: LifeRule[] = [
  [
    'windows by groups are those of the samples',
    rule(async (t, life) => {
      for (const window of WINDOWS) await ask(t, life, { window }, `sum of ${window}`)
      for (const group of GROUPS) for (const window of ['last', 'rate'] as const) await ask(t, life, { window, group }, `${group} of ${window}`)
      for (const field of ['value', 'n'])
        for (const [tags, without] of [
          [[], false],
          [['host', 'dc'], false],
          [['none'], false],
          [['host'], true],
          [[], true],
        ] as const)
          await ask(t, life, { field, tags, without }, `${field} ${without ? 'without' : 'by'} ${tags}`)
    }),
  ],
  [
    'conditions and bounds hold for them',
    rule(async (t, life) => {
      for (const op of ['=', '!=', '=~', '!~'] as const)
        for (const value of ['dc1', '', 'dc[01]']) await ask(t, life, { tags: ['host'], matchers: [{ tag: 'dc', op, value }] }, `dc ${op} "${value}"`)
      await ask(t, life, { start: NOW - 300n * SECOND, end: NOW - 200n * SECOND }, 'a part of the time')
      await ask(t, life, { windows: { first: NOW_MS - 60_500, interval: 0, count: 1, range: 90_500 } }, 'one window')
      const { found } = await ask(t, life, { tags: ['host'], maxCells: 30 }, 'more cells than are wanted')
      t.equal(found, 'declined', 'declined where there would be more cells than are wanted')
      await t.rejects(life.engine.run(jobModule('aggregates'), { ...request, measurement: 'other' }).result, { code: 'NOT_FOUND' })
    }),
  ],
  [
    'what was deleted, and what other namespaces have, is not in them',
    rule(async (t, life) => {
      await write(life.engine, points(), { backfill: true, nonFinite: true, namespace: 'other' })
      await life.engine.delete({ namespace: 'default', measurement: 'm', matchers: [{ tag: 'host', op: '=', value: 'h1' }] })
      await life.engine.delete({ namespace: 'default', measurement: 'm', start: NOW - 200n * SECOND, end: NOW - 100n * SECOND })
      await life.between()
      await ask(t, life, { group: 'count', window: 'last' }, 'count')
      await ask(t, life, { namespace: 'other' }, 'of another namespace')
    }),
  ],
]
