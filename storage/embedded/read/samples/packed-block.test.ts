/** Packed blocks against the samples that they are made of, in all widths that these may have. */
import t from 'tap'
import { Random } from '../../../conformance/random.ts'
import { Packer } from './packed-block.ts'

const seed = Number(process.env.SVC_SEED ?? Date.now() % 1e9)
const START = 1_700_000_000_000

t.test('each sample is what it was, however many bits it takes', (t) => {
  const random = new Random(seed)
  const packer = new Packer()
  const widths = new Set<number>()
  for (let round = 0; round < 300; round++) {
    const runs = 1 + random.below(3)
    const starts = new Int32Array(runs + 1)
    for (let run = 0; run < runs; run++) starts[run + 1] = starts[run] + 64 + random.below(80)
    const rows = starts[runs]
    const width = random.below(33)
    const least = random.pick([-(2 ** 31), Math.min(0, 2 ** 31 - 2 ** width)])
    const values = Int32Array.from({ length: rows }, () => least + random.below(2 ** width))
    const step = 2 ** random.below(random.pick([4, 22]))
    const times = new Float64Array(rows)
    for (let run = 0; run < runs; run++) for (let i = starts[run], time = START; i < starts[run + 1]; i++) times[i] = time += 1 + random.below(step)
    const minTime = Math.min(...times)
    const maxTime = Math.max(...times)
    const packed = packer.pack({ series: Int32Array.from(starts.keys()).subarray(0, runs), starts, times, values, divisor: 1, minTime, maxTime })
    if (packed === undefined) continue
    widths.add(width)
    const again = new Float64Array(rows)
    packed.unpackTimes(again)
    t.ok(
      again.every((time, i) => time === times[i]),
      `SVC_SEED=${seed}, round ${round}: all times`,
    )
    for (let run = 0; run < runs; run++) {
      const [from, to] = [starts[run] + random.below(40), starts[run + 1] - random.below(20)]
      const [unpackedTimes, unpacked] = [new Float64Array(to - from), new Float64Array(to - from)]
      packed.unpack(run, from, to, unpackedTimes, unpacked, 0)
      t.same([packed.timeBound(run, times[from] - 1, from, to), packed.timeBound(run, times[to - 1] + 1, from, to)], [from, to])
      for (let i = from; i < to; i++) {
        const found = [packed.time(run, i), packed.value(run, i), unpackedTimes[i - from], unpacked[i - from], packed.timeBound(run, times[i], from, to)]
        if (found.join() === [times[i], values[i], times[i], values[i], i].join()) continue
        return void t.fail(`SVC_SEED=${seed}, round ${round}, width ${width}, sample ${i}: ${found.join(' ')}, not ${times[i]} ${values[i]}`)
      }
    }
  }
  t.ok(widths.size > 10, `${widths.size} widths`)
  t.end()
})

t.test('values as far apart as 32 bits allow', (t) => {
  const values = Int32Array.from({ length: 256 }, (_, i) => [-(2 ** 31), 2 ** 31 - 1, 0, 5][Math.min(3, Math.max(0, i - 100))])
  const times = Float64Array.from(values, (_, i) => START + i)
  const packed = new Packer().pack({ series: Int32Array.of(7), starts: Int32Array.of(0, 256), times, values, divisor: 1, minTime: START, maxTime: START + 255 })
  t.same(packed === undefined ? undefined : Array.from(values, (_, i) => packed.value(0, i)), [...values])
  t.end()
})
