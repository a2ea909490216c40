import t, { type Test } from 'tap'
import { every10s, overWindow, Recorder, type Sample } from '../testing/calls.ts'

const near = (t: Test, actual: unknown, expected: number, message?: string): void => {
  t.ok(typeof actual === 'number' && Math.abs(actual - expected) <= Math.abs(expected) * 1e-14, `${message ?? ''} ${actual} is ${expected}`)
}

t.test('a counter that covers its range', async (t) => {
  // Samples at 10 to 60 in (5, 65]: 5 seconds to either end, less than 1.1 times the distance of 10.
  const samples: Sample[] = [10, 20, 30, 40, 50, 60].map((time) => [time, 100 + time])
  near(t, overWindow('increase', samples, { from: 5, to: 65 }), 50 * (60 / 50))
  near(t, overWindow('rate', samples, { from: 5, to: 65 }), 1)
  near(t, overWindow('delta', samples, { from: 5, to: 65 }), 60)
})

t.test('a series that begins or ends inside the range reaches half a distance further', async (t) => {
  const samples: Sample[] = [100, 110, 120].map((time) => [time, 1000 + time])
  near(t, overWindow('increase', samples, { from: 0, to: 200 }), 20 * ((20 + 5 + 5) / 20))
  near(t, overWindow('rate', samples, { from: 0, to: 200 }), 30 / 200)
  // 11 s is the threshold itself: not close any more.
  near(t, overWindow('increase', samples, { from: 89, to: 120 }), 20 * (25 / 20))
  near(t, overWindow('increase', samples, { from: 89.001, to: 120 }), 20 * (30.999 / 20))
})

t.test('a counter does not reach back beyond zero, a gauge does', async (t) => {
  const samples: Sample[] = [
    [10, 2],
    [20, 12],
  ]
  near(t, overWindow('increase', samples, { from: 0, to: 20 }), 10 * ((10 + 2) / 10))
  near(t, overWindow('delta', samples, { from: 0, to: 20 }), 10 * 2)
})

t.test('resets add what the counter had reached', async (t) => {
  const samples = every10s(100, 110, 5, 10, 3, 4)
  near(t, overWindow('increase', samples), 4 - 100 + 110 + 10)
  t.equal(overWindow('resets', samples), 2)
  near(t, overWindow('delta', samples), -96)
})

t.test('the last two samples', async (t) => {
  near(t, overWindow('irate', every10s(1, 2, 10)), 0.8)
  near(t, overWindow('irate', every10s(1, 20, 10)), 1, 'a reset counts from zero')
  near(t, overWindow('idelta', every10s(1, 20, 10)), -10)
  t.equal(
    overWindow('irate', [
      [10, 1],
      [10, 2],
    ]),
    undefined,
    'no time between them',
  )
})

t.test('one sample is no change', async (t) => {
  for (const fn of ['rate', 'increase', 'delta', 'irate', 'idelta']) t.equal(overWindow(fn, [[1, 1]]), undefined, fn)
})

t.test('anchored takes the sample at or before each boundary', async (t) => {
  const samples: Sample[] = [
    [0, 10],
    [12, 11],
    [22, 15],
    [32, 2],
    [40, 8],
  ]
  const options = { from: 20, to: 40, modifier: 'anchored' } as const
  near(t, overWindow('increase', samples, options), 8 - 11 + 15)
  near(t, overWindow('rate', samples, options), 12 / 20)
  near(t, overWindow('delta', samples, options), -3)
  t.equal(overWindow('changes', samples, options), 3)
  t.equal(overWindow('resets', samples, options), 1)
  t.equal(overWindow('increase', samples, { ...options, from: 40, to: 60 }), undefined, 'nothing inside')
})

t.test('smoothed takes the values on the line at both boundaries', async (t) => {
  const samples: Sample[] = [
    [0, 0],
    [20, 20],
    [40, 30],
  ]
  const options = { from: 10, to: 30, modifier: 'smoothed' } as const
  near(t, overWindow('increase', samples, options), 15)
  near(t, overWindow('rate', samples, options), 15 / 20)
  near(t, overWindow('delta', samples, options), 15)
  const reset: Sample[] = [
    [0, 100],
    [20, 20],
    [40, 30],
  ]
  near(t, overWindow('increase', reset, options), 25 - 10, 'from zero after a reset across the boundary')
  const end: Sample[] = [
    [0, 0],
    [20, 100],
    [40, 10],
  ]
  near(t, overWindow('increase', end, options), 50 + 5, 'what was reached before a reset across the later one')
})

t.test('names that do not look like a counter are told once', async (t) => {
  const annotations = new Recorder()
  const { implementationOf } = await import('./index.ts')
  const { RangeCall } = await import('./contract.ts')
  const { LabelList, Labels } = await import('../labels.ts')
  const rate = implementationOf('rate')
  const expr = { kind: 'call', name: 'rate', args: [], type: 'vector', pos: { start: 0, end: 1 } } as const
  const call = new RangeCall({ ...expr, args: [] }, { start: 5, end: 9 }, annotations)
  const names = ['a_total', 'b', 'b', 'c_bucket', 'd']
  const labels = new LabelList(names.map((name, i) => Labels.of({ __name__: name, i: String(i) })))
  if (rate.kind === 'range') rate.annotate?.(labels, Uint8Array.of(1, 1, 1, 1, 0), call)
  t.same(annotations.texts, ['info: metric might not be a counter, name does not end in _total/_sum/_count/_bucket: "b" @5'])
})
