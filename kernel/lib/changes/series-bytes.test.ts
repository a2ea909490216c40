/** Texts by series against a map of them: more series than have slots, more text than is kept. */
import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { SeriesBytes } from './series-bytes.ts'

const SEED = Number(process.env.SVC_SEED ?? 1)
const STEPS = 300_000

for (const [name, count, length] of [
  ['few', 5000, 40],
  ['more than there are slots for', 200_000, 20],
  ['longer than what is kept', 3000, 20_000],
] as const)
  t.test(`series: ${name}: SVC_SEED=${SEED}`, async (t) => {
    const random = seeded(SEED)
    const found = new SeriesBytes()
    const wanted = new Map<number, string>()
    let asked = 0
    const textOf = (series: number): string => {
      asked++
      return wanted.get(series) as string
    }
    const steps = length > 1000 ? STEPS / 100 : STEPS
    for (let i = 0; i < steps; i++) {
      const series = Math.floor(random() * count)
      if (!wanted.has(series)) wanted.set(series, `${series}é\ud83d\ude00${'x'.repeat(Math.floor(random() * length))}`)
      found.find(series, textOf)
      const { bytes, start, end } = found
      if (Buffer.from(bytes.buffer, start, end - start).toString() !== wanted.get(series)) return t.fail(`step ${i}, series ${series}`)
      if (bytes.length > 9 << 20) return t.fail(`${bytes.length} bytes are kept`)
    }
    if (count === 5000) t.ok(asked < wanted.size * 2, 'texts of few are kept')
  })
