import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { Annotations } from './eval/annotations.ts'
import { Budget } from './eval/context.ts'
import type { Steps, VectorValue } from './eval/value.ts'
import { decodeSteps, encodeSteps, evaluateSteps, heldSteps, type KeptSteps } from './kept-steps.ts'
import { LabelList, Labels } from './labels.ts'
import { parse } from './parser/parse.ts'
import { buckets } from './testing/calls.ts'
import { load, MemorySource, parseLabels } from './testing/memory-source.ts'

/** A vector with a step, whose labels are made when they are asked for. */
function wide(series: number, text: string): { value: VectorValue; made: () => number } {
  let made = 0
  class Counted extends LabelList {
    override at(i: number): Labels {
      made++
      return super.at(i)
    }
  }
  const labels = new Counted(Array.from({ length: series }, (_, i) => Labels.of({ host: `${text}${i}` })))
  return { value: { type: 'vector', labels, steps: 1, values: new Float64Array(series).fill(2), kinds: new Uint8Array(series).fill(1) }, made: () => made }
}

t.test('what is kept comes back', async (t) => {
  const { value } = wide(10, '"\xff\ud800')
  const bytes = encodeSteps({ start: 5, value, annotations: ['info a'] }, 1 << 20)
  const kept = decodeSteps(bytes as Uint8Array)
  t.equal(kept.start, 5)
  t.same(kept.annotations, ['info a'])
  t.same(kept.value.values, value.values)
  t.equal(kept.value.labels.at(9).key, value.labels.at(9).key)
})

t.test('steps hold up to the first that a change is seen from', async (t) => {
  const kept = (start: number): KeptSteps => ({ start, value: { ...wide(0, '').value, steps: 10 }, annotations: [] })
  const held = (steps: Partial<Steps>, ...changed: [number, number][]): number =>
    heldSteps(
      kept(10_000),
      { start: 10_000, interval: 1000, count: 10, ...steps },
      changed.map(([first, last]) => [BigInt(first) * 1_000_000n, BigInt(last) * 1_000_000n] as const),
      5000,
    )
  t.equal(held({}), 10)
  t.equal(held({ count: 4 }), 4)
  t.equal(held({ start: 12_000, count: 20 }), 8)
  t.equal(held({ start: 12_500 }), 0, 'others')
  t.equal(held({ start: 9000 }), 0, 'the first is not kept')
  t.equal(held({ start: 25_000 }), 0, 'behind them')
  t.equal(held({}, [15_000, 15_000]), 5)
  t.equal(held({ start: 12_000 }, [15_000, 15_000]), 3)
  t.equal(held({}, [15_500, 15_600]), 6, 'the step before it does not see it')
  t.equal(held({}, [25_000, 26_000]), 10)
  t.equal(held({}, [18_000, 18_000], [13_000, 13_000], [16_000, 16_000]), 3)
  t.equal(held({}, [5000, 5000]), 0, 'the first looks back to it')
  t.equal(held({}, [1000, 4998]), 10)
  t.equal(held({}, [1000, 30_000]), 0)
  t.equal(held({ interval: 10_000 }, [11_000, 12_000]), 10, 'between two steps that are further apart than they look back')
  // The millisecond of a time before 1970 is the one before it.
  t.equal(heldSteps(kept(-5), { start: -5, interval: 1, count: 10 }, [[-1n, -1n]], 0), 4)
})

t.test('labels that would take more than there is room for are not written out', async (t) => {
  // Its values alone would do.
  const { value, made } = wide(100_000, 'x'.repeat(100))
  t.equal(encodeSteps({ start: 0, value, annotations: [] }, 1 << 20), undefined)
  t.ok(made() < 2000, `${made()} label sets`)
})

t.test('labels that take long to read back are not kept, however much room there is', async (t) => {
  const { value, made } = wide(100_000, 'x'.repeat(100))
  t.equal(encodeSteps({ start: 0, value, annotations: [] }, 1 << 30), undefined)
  t.ok(made() < 20_000, `${made()} label sets`)
})

t.test('annotations of thousands of metrics are no work beside the steps', async (t) => {
  const metrics = 8000
  const source = new MemorySource()
  const samples = Array.from({ length: 10 }, (_, i) => ({ time: i * 60_000, value: i }))
  // As one block that is made once.
  const labels = new LabelList(Array.from({ length: metrics }, (_, i) => Labels.of({ __name__: `m${10_000 + i}` })))
  source.select = async () => ({
    labels,
    async *blocks() {
      for (let first = 0; first < metrics; first++)
        yield {
          first,
          starts: Int32Array.of(0, 10),
          times: Float64Array.from(samples, ({ time }) => time),
          values: Float64Array.from(samples, ({ value }) => value),
        }
    },
  })
  const expr = parse('sum(rate({__name__=~".+"}[5m]))')
  let kept: Uint8Array | undefined
  const took = async (start: number, bytes?: Uint8Array): Promise<number> => {
    const annotations = new Annotations()
    const before = process.threadCpuUsage()
    await evaluateSteps(
      expr,
      { start, interval: 60_000, count: 5 },
      {
        source,
        lookbackMs: 300_000,
        defaultStepMs: 60_000,
        budget: new Budget(1e9),
        annotations,
        signal: new AbortController().signal,
        query: { start, end: start + 240_000, step: 60_000 },
      },
      { changed: [], maxBytes: 1 << 20, keep: (own) => void (kept = own), ...(bytes === undefined ? {} : { bytes }) },
    )
    t.equal(annotations.keys?.length, metrics)
    const { user, system } = process.threadCpuUsage(before)
    return (user + system) / 1000
  }
  const whole = Math.min(await took(120_000), await took(120_000), await took(120_000))
  const first = kept
  const rest = Math.min(await took(180_000, first), await took(180_000, first), await took(180_000, first))
  t.ok(rest < 3 * whole, `${rest} ms, and all steps ${whole} ms`)
})

t.test('going on from kept steps takes no more room than there is for all of them', async (t) => {
  const steps = (start: number, count: number): Steps => ({ start: start * 60_000, interval: 60_000, count })
  // One whose name brings an annotation ends early.
  const source = load(`early 0+1x10\n${Array.from({ length: 50 }, (_, i) => `late_total{i="${i}"} 0+1x300`).join('\n')}`, 60_000)
  const query = parse('rate({__name__=~"early|late_total"}[5m])')
  const run = async (own: Steps, limit: number, bytes?: Uint8Array): Promise<{ kept: Uint8Array | undefined; peak: number; notes: number | undefined }> => {
    let kept: Uint8Array | undefined
    const budget = new Budget(limit)
    const annotations = new Annotations()
    const { signal } = new AbortController()
    const context = { source, lookbackMs: 300_000, defaultStepMs: 60_000, budget, annotations, signal, query: { start: 0, end: 0, step: 60_000 } }
    const partial = { changed: [], maxBytes: 1 << 20, keep: (made: Uint8Array) => void (kept = made), ...(bytes === undefined ? {} : { bytes }) }
    await evaluateSteps(query, own, context, partial)
    return { kept, peak: budget.peak, notes: annotations.keys?.length }
  }
  for (const [name, first, later] of [
    ['an annotation that does not come up again', steps(8, 20), steps(18, 200)],
    ['a range that is much longer', steps(30, 10), steps(35, 200)],
  ] as const) {
    const { kept } = await run(first, 1e9)
    const alone = await run(later, 1e9)
    const on = await run(later, alone.peak, kept)
    t.equal(on.notes, alone.notes, name)
  }
})

t.test('what steps do not say by themselves, or what is not kept of them, is evaluated for all of them', async (t) => {
  const steps = (start: number, count: number): Steps => ({ start: start * 60_000, interval: 60_000, count })
  const run = async (source: MemorySource, query: string, own: Steps, bytes?: Uint8Array) => {
    let kept: Uint8Array | undefined
    const annotations = new Annotations()
    const { signal } = new AbortController()
    const context = {
      source,
      lookbackMs: 60_000,
      defaultStepMs: 60_000,
      budget: new Budget(1e9),
      annotations,
      signal,
      query: { start: 0, end: 0, step: 60_000 },
    }
    const partial = { changed: [], maxBytes: 1 << 20, keep: (made: Uint8Array) => void (kept = made), ...(bytes === undefined ? {} : { bytes }) }
    const { kinds, values, histograms } = (await evaluateSteps(parse(query), own, context, partial)) as VectorValue
    return { kept, notes: annotations.keys, kinds: [...kinds], values: [...values], histograms: histograms?.length }
  }
  const beyond = (source: MemorySource): MemorySource => Object.assign(source, { beyondSteps: true })
  /** Floats up to a step, and histograms behind it. */
  const mixed = (floats: number): MemorySource => {
    const source = load(floats === 0 ? '' : `m 5+1x${floats - 1}`, 60_000)
    const more = Array.from({ length: 30 - floats }, (_, i) => ({ time: (floats + i) * 60_000, value: 0, histogram: buckets([1]) }))
    source.add(parseLabels('m'), more)
    return source
  }
  const { kept: before } = await run(load('m 0+1x30', 60_000), 'm', steps(0, 10))
  t.ok(before, 'floats are kept')
  t.equal((await run(beyond(load('m 0+1x30', 60_000)), 'm', steps(0, 10))).kept, undefined, 'not of a source that looks further')
  t.equal((await run(mixed(0), 'm', steps(0, 10))).kept, undefined, 'no histograms')
  // What is kept differs from what there is now: it shows which steps were evaluated.
  const { values: all } = await run(load('m 5+1x30', 60_000), 'm', steps(0, 20))
  const on = await run(load('m 5+1x30', 60_000), 'm', steps(0, 20), before)
  t.same(on.values, [...Array.from({ length: 10 }, (_, i) => i), ...all.slice(10)], 'steps that are kept are not evaluated')
  t.same((await run(beyond(load('m 5+1x30', 60_000)), 'm', steps(0, 20), before)).values, all)
  const whole = await run(mixed(15), 'm', steps(0, 20))
  t.same(await run(mixed(15), 'm', steps(0, 20), before), whole, 'histograms behind them')
  // Its name brings an annotation, at the first steps only.
  const ending = load('early{i="0"} 0+1x10\nlate_total{i="1"} 0+1x30', 60_000)
  const query = 'rate({__name__=~"early|late_total"}[5m])'
  const first = await run(ending, query, steps(8, 20))
  const later = await run(ending, query, steps(9, 20), first.kept)
  t.equal(first.notes?.length, 1)
  t.same(later.notes, first.notes, 'an annotation of steps that are still asked for')
})

/** Of `m` over a source, going on from these bytes. */
async function going(source: MemorySource, own: Steps, partial: { bytes?: Uint8Array; changed?: [bigint, bigint][] }) {
  const kept: Uint8Array[] = []
  const context = {
    source,
    lookbackMs: 60_000,
    defaultStepMs: 60_000,
    budget: new Budget(1e9),
    annotations: new Annotations(),
    signal: new AbortController().signal,
    query: { start: 0, end: 0, step: 60_000 },
  }
  const value = (await evaluateSteps(parse('m'), own, context, {
    changed: [],
    maxBytes: 1 << 20,
    keep: (made) => void kept.push(made),
    ...partial,
  })) as VectorValue
  const rows = Array.from({ length: value.labels.length }, (_, i) => ({
    key: value.labels.at(i).key,
    cells: Array.from(value.values.subarray(i * own.count, (i + 1) * own.count), (cell, t) => (value.kinds[i * own.count + t] === 0 ? undefined : cell)),
  }))
  const filled = rows.filter(({ cells }) => cells.some((cell) => cell !== undefined)).sort((a, b) => (a.key < b.key ? -1 : 1))
  return { kept: kept.at(-1), filled, value }
}

const SEED = Number(process.env.SVC_TEST_SEED ?? Math.floor(Math.random() * 2 ** 31))

t.test(`series that come, go, pause and change their order are joined by their labels (seed ${SEED})`, async (t) => {
  const random = seeded(SEED)
  const COUNT = 12
  const shared = { steps: 0, other: 0 }
  for (let round = 0; round < 200; round++) {
    const usual = random() < 0.5
    const names = Array.from({ length: 1 + Math.floor(random() * 6) }, (_, i) => `h${i}`)
    /** When each has values: most all the time. */
    const there = new Map(
      names.map((name) => {
        const from = usual || random() < 0.6 ? 0 : Math.floor(random() * 24)
        const to = random() < 0.6 ? 24 : from + Math.floor(random() * 24)
        return [name, (step: number) => step >= from && step < to && (usual || step % 7 !== 3)] as const
      }),
    )
    const source = (order: readonly string[]): MemorySource => {
      const made = new MemorySource()
      for (const host of order) {
        const samples = Array.from({ length: 24 }, (_, step) => step).filter((step) => there.get(host)!(step))
        // One that is empty is a series, too.
        made.add(
          Labels.of({ __name__: 'm', host }),
          samples.map((step) => ({ time: step * 60_000, value: step + order.length })),
        )
      }
      return made
    }
    const steps = (start: number): Steps => ({ start: start * 60_000, interval: 60_000, count: COUNT })
    const first = await going(source(names), steps(0), {})
    const later = source(usual ? names : names.toSorted(() => random() - 0.5))
    const at = Math.floor(random() * 8)
    const whole = await going(later, steps(at), {})
    const on = await going(later, steps(at), { bytes: first.kept! })
    t.same(on.filled, whole.filled, `round ${round}`)
    const again = decodeSteps(on.kept ?? first.kept!)
    if (again.value.labels === decodeSteps(first.kept!).value.labels) shared.steps++
    else shared.other++
    // What was kept of it is what there is.
    t.same((await going(new MemorySource(), steps(at), { bytes: on.kept ?? first.kept! })).filled, whole.filled, `round ${round}, kept`)
  }
  t.ok(shared.steps > 10 && shared.other > 10, JSON.stringify(shared))
})

t.test('a single step is not kept, nor gone on from: sort() does with it what it does not with several', async (t) => {
  const source = load('m{host="a"} 0+1x30', 60_000)
  t.equal((await going(source, { start: 0, interval: 60_000, count: 1 }, {})).kept, undefined)
  const { kept } = await going(source, { start: 0, interval: 60_000, count: 2 }, {})
  t.same((await going(new MemorySource(), { start: 0, interval: 60_000, count: 1 }, { bytes: kept! })).filled, [])
})

t.test('the very steps that are kept are neither copied nor kept once more, unless rows have changed behind them', async (t) => {
  const source = load('m{host="a"} 0+1x30\nm{host="b"} 0+1x30', 60_000)
  const own = { start: 0, interval: 60_000, count: 10 }
  const { kept } = await going(source, own, {})
  const bytes = new Uint8Array(new SharedArrayBuffer(kept!.length))
  bytes.set(kept!)
  const again = await going(new MemorySource(), own, { bytes })
  t.equal(again.kept, undefined)
  t.equal(again.value.values.buffer, bytes.buffer)
  const changed = await going(new MemorySource(), own, { bytes, changed: [[1_200_000_000_000n, 1_300_000_000_000n]] })
  t.equal(changed.kept, bytes, 'it holds as of now')
  t.equal(changed.filled.length, 2)
})
