/** Sample blocks put together: order, and which of the samples of a time wins. */
import t from 'tap'
import { Gatherer } from './gather.ts'
import { SampleBlockBuilder } from './sample-block.ts'
import { Scratch, ScratchPool } from './scratch.ts'

type Sample = [series: number, ns: bigint, value: number]

function gathered(blocks: readonly (readonly Sample[])[], series: readonly number[], max = 1000): string[] {
  const gatherer = new Gatherer(Int32Array.from(series), 0, Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY, new Scratch(new ScratchPool(0)))
  for (const samples of blocks) {
    const builder = new SampleBlockBuilder(samples.length)
    for (const [number, ns, value] of samples) builder.addNumber(number, Number(BigInt.asIntN(32, ns)), Number(ns >> 32n), value)
    gatherer.add({ block: builder.build(true), masks: [] })
  }
  const out: string[] = []
  const stored = gatherer.areStored ? storedOf(gatherer, series) : undefined
  for (let from = 0, to: number; from < series.length; from = to) {
    to = gatherer.blockEnd(from, max)
    const samples = gatherer.samples(from, to)
    if (to > from + 1 && samples > max) throw new Error(`a block of ${samples} samples`)
    const { first, starts, times, values } = gatherer.rows(from, to, { times: new Float64Array(samples), values: new Float64Array(samples) })
    for (let s = 0; s < to - from; s++) for (let i = starts[s]; i < starts[s + 1]; i++) out.push(`${series[first + s]} ${times[i]} ${values[i]}`)
  }
  if (stored !== undefined && stored.join() !== out.join()) throw new Error(`where they are stored: ${stored.join()}\nand copied: ${out.join()}`)
  return out
}

function storedOf(gatherer: Gatherer, series: readonly number[]): string[] {
  const { first, starts, runs, stored } = gatherer.storedRows(0, series.length)
  const out: string[] = []
  for (const [s, number] of series.slice(first).entries())
    for (let run = starts[s]; run < starts[s + 1]; run++) {
      const [block, from, to] = runs.subarray(run * 3, run * 3 + 3)
      const { times, values } = stored[block]
      for (let i = from; i < to; i++) out.push(`${number} ${times[i]} ${values[i]}`)
    }
  return out
}

/** The same one by one: the last of equal times wins, then the last of a millisecond. */
function expected(blocks: readonly (readonly Sample[])[]): string[] {
  const exact = new Map(blocks.flat().map(([series, ns, value]) => [`${series} ${ns}`, { series, ns, value }]))
  const ordered = [...exact.values()].sort((a, b) => a.series - b.series || Number(a.ns - b.ns))
  return [...new Map(ordered.map(({ series, ns, value }) => [`${series} ${ns / 1_000_000n}`, value]))].map(([at, value]) => `${at} ${value}`)
}

const MS = 1_000_000n

t.test('of equal times the newer source wins, whichever begins first', async (t) => {
  const early: Sample[] = [1n, 10n, 20n].map((ms) => [7, ms * MS, 1])
  const late: Sample[] = [10n, 15n].map((ms) => [7, ms * MS, 2])
  t.same(gathered([early, late], [7]), ['7 1 1', '7 10 2', '7 15 2', '7 20 1'])
  t.same(gathered([late, early], [7]), ['7 1 1', '7 10 1', '7 15 2', '7 20 1'])
})

t.test('sources that overlap in any way', async (t) => {
  let seed = 1
  const random = (n: number): number => (seed = (seed * 48_271) % 2_147_483_647) % n
  for (let round = 0; round < 300; round++) {
    const rests = round % 2 === 0 ? [0n] : [0n, 1n, 999_999n]
    const blocks = Array.from({ length: 1 + random(5) }, (_, u) => {
      const from = random(60)
      const samples = Array.from(
        { length: 1 + random(80) },
        (_, i): Sample => [random(3), BigInt(from + random(40)) * MS + rests[random(rests.length)], u * 1000 + i],
      )
      return samples.sort((a, b) => a[0] - b[0] || Number(a[1] - b[1]) || a[2] - b[2])
    })
    const [found, right] = [gathered(blocks, [0, 1, 2], 1 + random(150)), expected(blocks)]
    if (found.join() !== right.join()) return t.same(found, right, `round ${round}`)
  }
  t.pass('all of them')
})
