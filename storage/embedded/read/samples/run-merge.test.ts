/** Runs of a series out of blocks that overlap in any way, against a sort of all rows. */
import t from 'tap'
import { Random } from '../../../conformance/random.ts'
import { PackedBlock, Packer } from './packed-block.ts'
import { RunMerge, type TimedRows } from './run-merge.ts'
import type { SampleBlock } from './sample-block.ts'

const seed = Number(process.env.SVC_SEED ?? Date.now() % 1e9)

interface Row {
  run: number
  age: number
  row: number
  time: number
  rest: number
}

/** One series; values do not matter. */
function blockOf(random: Random, first: number, rows: number, isPacked: boolean): SampleBlock | PackedBlock {
  const times = new Float64Array(rows)
  const rests = !isPacked && random.chance(0.3) ? new Int32Array(rows) : undefined
  let duplicates = false
  for (let i = 0, time = first; i < rows; i++) {
    times[i] = time
    if (rests !== undefined) rests[i] = i > 0 && times[i - 1] === time ? rests[i - 1] + random.below(3) : random.below(4)
    const step = !isPacked && random.chance(0.1) ? 0 : 1 + random.below(random.chance(0.1) ? 30 : 3)
    if (step === 0 && i + 1 < rows) duplicates = true
    time += step
  }
  const block: SampleBlock = {
    series: Int32Array.of(1),
    starts: Int32Array.of(0, rows),
    times,
    values: new Float64Array(rows),
    ...(rests === undefined ? {} : { rests }),
    ...(duplicates ? { duplicates: true as const } : {}),
    minTime: times[0],
    maxTime: times[rows - 1],
  }
  return isPacked ? (new Packer().pack(block) ?? block) : block
}

t.test(`all rows in order, each time once, SVC_SEED=${seed}`, async (t) => {
  const random = new Random(seed)
  const merge = new RunMerge()
  let packed = 0
  for (let round = 0; round < 2000; round++) {
    const isChain = random.chance(0.5)
    const runs = Array.from({ length: 1 + random.below(random.chance(0.1) ? 40 : 6) }, (_, i) => {
      const rows = 1 + random.below(random.chance(0.2) ? 200 : 12)
      const block = blockOf(random, isChain ? i * rows : random.below(60), rows, random.chance(0.3))
      const from = random.below(rows)
      return { block, age: random.below(4), from, to: from + 1 + random.below(rows - from) }
    })
    const all: Row[] = []
    for (const [run, { block, age, from, to }] of runs.entries()) {
      if (block instanceof PackedBlock) packed++
      for (let row = from; row < to; row++) {
        const [time, rest] = block instanceof PackedBlock ? [block.time(0, row), 0] : [block.times[row], block.rests?.[row] ?? 0]
        all.push({ run, age, row, time, rest })
      }
      merge.add(block, age, 0, from, to)
    }
    all.sort((a, b) => a.time - b.time || a.rest - b.rest || a.age - b.age || a.row - b.row)
    const expected = all.filter(({ time }, i) => i + 1 === all.length || all[i + 1].time !== time)
    const found: { run: number; row: number }[] = []
    merge.merge((run, from, to) => {
      if (from >= to) t.fail(`nothing of run ${run} in round ${round}`)
      for (let row = from; row < to; row++) found.push({ run, row })
    })
    // Runs of one age and row at one time are the same row twice.
    const text = ({ run, row }: { run: number; row: number }): string => `${runs[run].age} ${row}`
    if (found.map(text).join() !== expected.map(text).join()) return t.same(found.map(text), expected.map(text), `round ${round}`)
  }
  t.ok(packed > 0)
})

t.test('of runs that overlap by some rows, only those are looked at', async (t) => {
  const ROWS = 10_000
  const OVERLAP = 5
  const RUNS = 20
  let looked = 0
  const merge = new RunMerge()
  for (let i = 0; i < RUNS; i++) {
    const times = Float64Array.from({ length: ROWS }, (_, row) => i * (ROWS - OVERLAP) + row + (i % 2) / 2)
    const counted = new Proxy(times, {
      get: (target, key) => {
        if (typeof key === 'string' && key >= '0' && key <= '9~') looked++
        return target[key as keyof Float64Array]
      },
    })
    merge.add({ times: counted } satisfies TimedRows, i, 0, 0, ROWS)
  }
  let rows = 0
  merge.merge((_, from, to) => (rows += to - from))
  t.equal(rows, RUNS * ROWS)
  t.ok(looked < RUNS * 200, `${looked} times of ${rows} looked at`)
})
