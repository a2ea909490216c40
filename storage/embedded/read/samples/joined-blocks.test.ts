/** Blocks put together against a plain model. */
import { SAMPLE_FLOAT, SAMPLE_STALE } from 'svcdb/lib/columns'
import t from 'tap'
import { Random } from '../../../conformance/random.ts'
import { DecimalScale } from './decimal-scale.ts'
import { joinedBlocks } from './joined-blocks.ts'
import { type SampleBlock, SampleBlockBuilder } from './sample-block.ts'

const seed = Number(process.env.SVC_SEED ?? Date.now() % 1e9)

interface Row {
  series: number
  ms: number
  value: number
  stale: boolean
}

function blockOf(rows: readonly Row[]): SampleBlock {
  const builder = new SampleBlockBuilder(4)
  const sorted = rows.map((row, i) => ({ ...row, i })).sort((a, b) => a.series - b.series || a.ms - b.ms || a.i - b.i)
  for (const { series, ms, value, stale } of sorted) {
    const time = BigInt(ms) * 1_000_000n
    const [low, high] = [Number(BigInt.asIntN(32, time)), Number(time >> 32n)]
    if (stale) builder.addFloat(series, low, high, 2, 0x7ff00000)
    else builder.addNumber(series, low, high, value)
  }
  return builder.build(true)
}

t.test(`of some series, some late, some twice, SVC_SEED=${seed}`, async (t) => {
  const random = new Random(seed)
  for (let round = 0; round < 60; round++) {
    const hosts = random.pick([1, 5, 60])
    const wanted = Int32Array.from({ length: hosts }, (_, i) => i * 3).filter(() => random.chance(0.8))
    const disorder = random.pick([0, 3, 500])
    const stale = random.chance(0.3)
    const divisor = random.pick([1, 100])
    const scale = new DecimalScale()
    const batches = Array.from({ length: 1 + random.below(8) }, (_, batch) =>
      Array.from({ length: random.below(400) }, (_, i): Row => {
        const ms = batch * 400 + i - random.below(disorder + 1)
        return { series: random.below(hosts * 3), ms, value: random.below(1e6) / divisor, stale: stale && batch % 2 === 0 && random.chance(0.2) }
      }),
    )
    const model = new Map<number, Map<number, Row>>(Array.from(wanted, (series) => [series, new Map()]))
    for (const row of batches.flat()) model.get(row.series)?.set(row.ms, row)
    const right: string[] = []
    for (const [series, rows] of model)
      for (const row of [...rows.values()].sort((a, b) => a.ms - b.ms)) right.push(`${series} ${row.ms} ${row.stale ? 'stale' : row.value}`)
    const { series, starts, times, values, kinds, minTime, maxTime } = joinedBlocks(
      batches.map(blockOf).map((block) => (random.chance(0.5) ? scale.narrowed(block) : block)),
      wanted,
    )
    const found: string[] = []
    for (let s = 0; s < series.length; s++) {
      if (starts[s] === starts[s + 1]) t.fail(`series ${series[s]} has no samples`)
      for (let i = starts[s]; i < starts[s + 1]; i++)
        found.push(`${series[s]} ${times[i]} ${(kinds?.[i] ?? SAMPLE_FLOAT) === SAMPLE_STALE ? 'stale' : values[i]}`)
    }
    if (found.join('\n') !== right.join('\n')) t.same(found, right, `round ${round}`)
    if (times.length > 0) t.same([minTime, maxTime], [Math.min(...times), Math.max(...times)])
  }
})
