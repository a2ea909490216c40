/** All windows of a series at once give what one window after the other gives, bit by bit. */
import type { StoredSamples } from 'svcdb/lib/columns'
import t from 'tap'
import type { CallExpr } from '../ast.ts'
import { Annotations } from '../eval/annotations.ts'
import { FLOAT } from '../eval/value.ts'
import { WindowPlan } from '../eval/window-plan.ts'
import { RangeCall, type RangeFunction } from './contract.ts'
import { IMPLEMENTATIONS } from './index.ts'

const SERIES = 12

let state = 42
function random(): number {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0
  return state / 2 ** 32
}

/** What series are made of. */
const SHAPES: Record<string, (before: number) => number> = {
  'whole gauge': () => Math.floor(random() * 9) - 3,
  'counter with resets': (before) => (random() < 0.1 ? 0 : before + Math.floor(random() * 50)),
  'large counter': (before) => (random() < 0.05 ? 7 : Math.max(before, 1e15) + Math.floor(random() * 1e12)),
  decimals: () => Math.round(random() * 1000) / 10 - 20,
  'fractions that reset': (before) => (random() < 0.2 ? 0.1 : before + random()),
  'whole and not': (before) => (random() < 0.2 ? 1 : random() < 0.2 ? before + 0.5 : Math.floor(before) + 3),
  zeros: () => (random() < 0.5 ? 0 : -0),
  'not finite': () => [Number.NaN, Infinity, -Infinity, 1, 2, 0][Math.floor(random() * 6)],
  huge: () => (random() - 0.3) * Number.MAX_VALUE,
  'one value': () => 5,
}

/** The times of some series, every second of which has those of the one before. */
function timesOf(series: number, start: number): number[] {
  const times: number[] = []
  const regular = series % 4 < 2
  for (let time = start + series * 137; times.length < 90; time += regular ? 10_000 : 1 + Math.floor(random() * 25_000)) {
    if (regular || random() > 0.2) times.push(time)
    if (random() < 0.01 && !regular) time += 400_000
  }
  return times
}

const START = 1_700_000_000_000
const grids = [
  { steps: { start: START, interval: 15_000, count: 80 }, range: 300_000, offset: 0 },
  { steps: { start: START - 500_000, interval: 60_000, count: 60 }, range: 60_000, offset: 30_000 },
  { steps: { start: START + 100_000, interval: 0, count: 1 }, range: 45_000, offset: -5_000 },
  { steps: { start: START + 50_000, interval: 1, count: 500 }, range: 20_001, offset: 0 },
  { steps: { start: START + 9e6, interval: 1000, count: 3 }, range: 1000, offset: 0 },
]

function same(a: readonly (number | undefined)[], b: readonly (number | undefined)[]): boolean {
  return a.length === b.length && a.every((cell, i) => Object.is(cell, b[i]))
}

class RowsOf {
  private readonly plan: WindowPlan
  private readonly rows: ReturnType<NonNullable<RangeFunction['rows']>> | undefined
  private readonly fn: RangeFunction
  private readonly grid: (typeof grids)[number]
  private series = 0

  constructor(fn: RangeFunction, grid: (typeof grids)[number]) {
    this.fn = fn
    this.grid = grid
    this.plan = new WindowPlan(grid.steps, grid.range, grid.offset)
    this.rows = fn.rows?.(this.plan)
  }

  /** Of these samples alone; the places are those among all. */
  some(
    list: readonly number[],
    samples: readonly number[],
    places: readonly number[],
  ): { short: (number | undefined)[] | undefined; long: (number | undefined)[] } {
    const times = Float64Array.from([7, ...places.map((place) => list[place])])
    const values = Float64Array.from([3, ...places.map((place) => samples[place])])
    const ordinals = Int32Array.from([5, ...places])
    const short = this.fn.rows === undefined ? undefined : this.short(times, values, 1, times.length, ordinals)
    return { short, long: this.long(times, values, 1, times.length, ordinals) }
  }

  all(list: readonly number[], samples: readonly number[]): (number | undefined)[] {
    return this.long(Float64Array.from(list), Float64Array.from(samples), 0, list.length)
  }

  both(list: readonly number[], samples: readonly number[]): Record<'short' | 'long', (number | undefined)[]> {
    // Other series lie before and behind.
    const times = Float64Array.from([1, 2, 3, ...list, START, START])
    const values = Float64Array.from([9, 8, 7, ...samples, 1, 2])
    return { short: this.short(times, values, 3, 3 + list.length), long: this.long(times, values, 3, 3 + list.length) }
  }

  private short(times: Float64Array, values: Float64Array, from: number, to: number, ordinals?: Int32Array): (number | undefined)[] {
    const { count } = this.grid.steps
    const row = { values: new Float64Array(count + 5), kinds: new Uint8Array(count + 5), base: 5 }
    this.plan.follow(times, from, to, ordinals)
    const given = this.rows!.fill(values, from, row)
    t.equal(given, row.kinds.includes(FLOAT))
    return Array.from({ length: count }, (_, step) => (row.kinds[5 + step] === FLOAT ? row.values[5 + step] : undefined))
  }

  private long(times: Float64Array, values: Float64Array, from: number, to: number, ordinals?: Int32Array): (number | undefined)[] {
    const { steps, range, offset } = this.grid
    const call = new RangeCall({ kind: 'call' } as CallExpr, { start: 0, end: 0 }, new Annotations())
    call.times = times
    call.values = values
    call.ordinals = ordinals
    call.series = this.series++
    call.range = range
    return Array.from({ length: steps.count }, (_, step) => {
      call.time = steps.start + step * steps.interval
      call.rangeEnd = call.time - offset
      call.rangeStart = call.rangeEnd - range
      call.lo = from
      while (call.lo < to && times[call.lo] <= call.rangeStart) call.lo++
      call.hi = call.lo
      while (call.hi < to && times[call.hi] <= call.rangeEnd) call.hi++
      return call.lo < call.hi && this.fn.window(call) === FLOAT ? call.value : undefined
    })
  }
}

for (const [name, fn] of IMPLEMENTATIONS) {
  if (fn.kind !== 'range' || fn.rows === undefined) continue
  t.test(name, async (t) => {
    let cells = 0
    for (const grid of grids) {
      const rows = new RowsOf(fn, grid)
      for (const [shape, next] of Object.entries(SHAPES)) {
        let times: number[] = []
        for (let series = 0; series < SERIES; series++) {
          if (series % 2 === 0) times = timesOf(series, START)
          let value = Math.floor(random() * 100)
          const values = times.map(() => {
            value = next(value)
            return value
          })
          const { short, long } = rows.both(times, values)
          cells += long.filter((cell) => cell !== undefined).length
          if (!same(short, long)) t.same(short, long, `${shape}, series ${series}, steps of ${grid.steps.interval}`)
        }
      }
    }
    t.ok(cells > 10_000, `${cells} cells are the same`)
  })
}

/** Samples as they may be stored: as floats, or as integers where they come from these. */
function storedSamples(values: readonly number[]): StoredSamples {
  const times = new Float64Array(values.length)
  for (const divisor of [1, 10]) {
    const integers = Int32Array.from(values, (value) => Math.round(value * divisor))
    if (random() < 0.7 && values.every((value, i) => Object.is(integers[i] / divisor, value))) return { times, values: integers, divisor }
  }
  return { times, values: Float64Array.from(values) }
}

for (const [name, fn] of IMPLEMENTATIONS) {
  if (fn.kind !== 'range' || fn.stored === undefined) continue
  const window = fn.stored()
  t.test(`${name} of samples where they are stored`, async (t) => {
    let integers = 0
    for (const [shape, next] of Object.entries(SHAPES)) {
      for (let round = 0; round < 300; round++) {
        let value = Math.floor(random() * 100)
        const values = Array.from({ length: 1 + Math.floor(random() * (round % 50 === 0 ? 3000 : 40)) }, () => (value = next(value)))
        const call = new RangeCall({ kind: 'call' } as CallExpr, { start: 0, end: 0 }, new Annotations())
        call.values = Float64Array.from(values)
        call.hi = values.length
        fn.window(call)
        window.begin()
        for (let from = 0, to: number; from < values.length; from = to) {
          to = Math.min(values.length, from + 1 + Math.floor(random() * values.length))
          const samples = storedSamples([5, ...values.slice(from, to), 6])
          integers += Number(samples.values instanceof Int32Array)
          window.add(samples, 1, 1 + to - from)
        }
        if (!Object.is(window.result(), call.value)) t.equal(window.result(), call.value, `${shape}: ${values.join(' ')}`)
      }
    }
    t.ok(integers > 100)
  })
}

t.test('sums of more integers than are exact', async (t) => {
  const values = new Int32Array((1 << 21) + 1000).fill(2 ** 31 - 1)
  for (const name of ['sum_over_time', 'avg_over_time']) {
    const fn = IMPLEMENTATIONS.get(name) as RangeFunction
    const call = new RangeCall({ kind: 'call' } as CallExpr, { start: 0, end: 0 }, new Annotations())
    call.values = Float64Array.from(values, (value, i) => value - (i % 3))
    call.hi = values.length
    fn.window(call)
    const window = fn.stored!()
    window.begin()
    const samples = { times: call.values, values: values.map((value, i) => value - (i % 3)), divisor: 1 }
    window.add(samples, 0, 1_500_000)
    window.add(samples, 1_500_000, values.length)
    t.equal(window.result(), call.value, name)
  }
})

/** Places of the samples that a storage has to give: those beside the ends of windows, where values fall, and some more. */
function neededPlaces(list: readonly number[], samples: readonly number[], { steps, range, offset }: (typeof grids)[number]): number[] {
  const places = new Set<number>([0, list.length - 1])
  for (let step = 0; step < steps.count; step++) {
    const end = steps.start + step * steps.interval - offset
    for (const edge of [end, end - range]) {
      const after = list.findIndex((time) => time > edge)
      places.add(after < 0 ? list.length - 1 : after).add(Math.max(0, (after < 0 ? list.length : after) - 1))
    }
  }
  for (let i = 1; i < list.length; i++) if (!(samples[i] >= samples[i - 1])) places.add(i).add(i - 1)
  for (let i = 0; i < list.length; i++) if (random() < 0.1) places.add(i)
  return [...places].sort((a, b) => a - b)
}

for (const [name, fn] of IMPLEMENTATIONS) {
  if (fn.kind !== 'range' || fn.edges !== true) continue
  t.test(`${name} of the samples that matter`, async (t) => {
    let left = 0
    for (const grid of grids.slice(0, 3)) {
      const rows = new RowsOf(fn, grid)
      for (const [shape, next] of Object.entries(SHAPES)) {
        for (let series = 0; series < SERIES; series++) {
          // As often as in windows that hold many samples.
          const times = timesOf(series, START).map((time) => START + Math.floor((time - START) / 9))
          let value = Math.floor(random() * 100)
          const values = times.map(() => {
            value = next(value)
            return value
          })
          const places = neededPlaces(times, values, grid)
          left += times.length - places.length
          const all = rows.all(times, values)
          const { short, long } = rows.some(times, values, places)
          if (!same(long, all)) t.same(long, all, `${shape}, series ${series}, steps of ${grid.steps.interval}`)
          if (short !== undefined && !same(short, all)) t.same(short, all, `${shape}, series ${series}, steps of ${grid.steps.interval}`)
        }
      }
    }
    t.ok(left > 1000, `${left} samples were left out`)
  })
}

t.test('series of the same times share a plan unless other samples of theirs were left out', (t) => {
  const plan = new WindowPlan({ start: 0, interval: 10_000, count: 3 }, 60_000, 0)
  const times = Float64Array.of(1000, 2000, 3000)
  const followed = (ordinals?: number[]): number => {
    plan.follow(times, 0, 3, ordinals === undefined ? undefined : Int32Array.from(ordinals))
    t.same(plan.ordinals?.slice(0, 3), ordinals === undefined ? undefined : Int32Array.from(ordinals))
    return plan.version
  }
  const first = followed([0, 1, 2])
  t.equal(followed([0, 1, 2]), first)
  const second = followed([0, 1, 9])
  t.not(second, first)
  t.not(followed(), second)
  t.end()
})
