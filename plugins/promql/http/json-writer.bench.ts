/** Nanoseconds of CPU a point of an answer, by kind of value, beside concatenated strings. node plugins/promql/http/json-writer.bench.ts */
import { JsonWriter } from './json-writer.ts'

const POINTS = 1_000_000
const START = 1_700_000_000_000
const STEP = 15_000
const FRAGMENT = 256 * 1024

function nanoseconds(run: () => void): number {
  run()
  const before = process.cpuUsage()
  run()
  const { user, system } = process.cpuUsage(before)
  return ((user + system) * 1000) / POINTS
}

for (const [name, value] of [
  ['integers', (i: number) => i * 7],
  ['two decimals', (i: number) => i / 100],
  ['rates', (i: number) => i / 15 + 0.1234],
] as const) {
  const values = Float64Array.from({ length: POINTS }, (_, i) => value(i))
  const json = new JsonWriter()
  const bytes = nanoseconds(() => {
    for (let i = 0; i < POINTS; i++) {
      json.point(START + i * STEP, values[i])
      if (json.length >= FRAGMENT) json.take()
    }
  })
  const strings = nanoseconds(() => {
    let text = ''
    for (let i = 0; i < POINTS; i++) {
      text += `[${(START + i * STEP) / 1000},"${values[i]}"]`
      if (text.length < FRAGMENT) continue
      Buffer.from(text)
      text = ''
    }
  })
  console.log(`${name}: ${bytes.toFixed(0)} ns a point, as strings ${strings.toFixed(0)} ns`)
}
