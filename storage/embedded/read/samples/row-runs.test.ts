/** Which rows of overlapping blocks are meant, against a map of the newest. */
import t from 'tap'
import { Random } from '../../../conformance/random.ts'
import { RUN } from '../../memtable/runs.ts'
import type { BlockMask } from './mask-times.ts'
import type { Frame } from './page-block.ts'
import { RowRuns } from './row-runs.ts'

const seed = Number(process.env.SVC_SEED ?? Date.now() % 1e9)

t.test('each series and millisecond once, of the newest block, without what is masked', (t) => {
  const random = new Random(seed)
  for (let round = 0; round < 400; round++) {
    const frames = Array.from({ length: 1 + random.below(5) }, () => frameOf(random))
    const masks = frames.map((): BlockMask[] => {
      const from = random.below(40)
      const series = random.chance(0.5) ? undefined : Int32Array.of(random.below(6))
      return random.chance(0.7) ? [] : [{ series, fromMs: from, fromRest: 0, toMs: from + random.below(10), toRest: 0 }]
    })
    const wanted = Int32Array.from([0, 1, 2, 3, 4, 5].filter(() => random.chance(0.8)))
    const [lo, hi] = random.chance(0.5) ? [-1, 1000] : [random.below(20), 20 + random.below(20)]
    const first = random.below(3)
    // What an earlier question has kept of frames is that of a later one.
    if (random.chance(0.5)) for (const frame of frames) new RowRuns(wanted, 0, -1, 1000).add({ frame, masks: [] })
    const rows = new RowRuns(wanted, first, lo, hi)
    const expected = new Map<string, string>()
    for (const [block, frame] of frames.entries()) {
      rows.add({ frame, masks: masks[block] })
      eachRow(frame, (series, row) => {
        const time = frame.times[row]
        const masked = masks[block].some((mask) => (mask.series?.includes(series) ?? true) && time >= mask.fromMs && time < mask.toMs)
        if (!masked && wanted.includes(series) && time >= lo && time <= hi) expected.set(`${first + wanted.indexOf(series)} ${time}`, `${block} ${row}`)
      })
    }
    const found = new Map<string, string>()
    let twice = 0
    let descends = 0
    for (const [block, runs] of rows.finish().entries()) {
      const { times } = frames[block]
      for (let r = 0; r < runs.length; r += RUN)
        for (let row = runs[r + 1]; row < runs[r + 2]; row++) {
          const key = `${runs[r]} ${times[row]}`
          if (found.has(key)) twice++
          if (row > runs[r + 1] && !(times[row - 1] < times[row])) descends++
          found.set(key, `${block} ${row}`)
        }
    }
    const sorted = (map: Map<string, string>): string[] => [...map].map(([key, value]) => `${key}: ${value}`).sort()
    const same = twice === 0 && descends === 0 && JSON.stringify(sorted(found)) === JSON.stringify(sorted(expected))
    if (!same) return void t.fail(`SVC_SEED=${seed}, round ${round}`)
  }
  t.pass()
  t.end()
})

/** Some series in order, times ascending within each, now and then one twice. */
function frameOf(random: Random): Frame {
  const series: number[] = []
  const starts: number[] = []
  const times: number[] = []
  let duplicates = false
  for (let number = 0; number < 6; number++) {
    if (random.chance(0.4)) continue
    series.push(number)
    starts.push(times.length)
    let time = random.below(30)
    for (let left = 1 + random.below(8); left > 0; left--) {
      times.push(time)
      const step = random.chance(0.1) ? 0 : 1 + random.below(4)
      if (step === 0 && left > 1) duplicates = true
      time += step
    }
  }
  starts.push(times.length)
  const frame: Frame = {
    series: Int32Array.from(series),
    starts: Int32Array.from(starts),
    times: Float64Array.from(times),
    minTime: Math.min(...times),
    maxTime: Math.max(...times),
  }
  if (duplicates) frame.duplicates = true
  return frame
}

function eachRow({ series, starts }: Frame, visit: (series: number, row: number) => void): void {
  for (let s = 0; s < series.length; s++) for (let row = starts[s]; row < starts[s + 1]; row++) visit(series[s], row)
}
