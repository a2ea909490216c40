/** Points and bytes a second through the JSON parser on one core: node plugins/native/points.bench.ts [points] */

import { WriteBatch } from 'svcdb/lib/columns'
import { atOnce } from 'svcdb/lib/event-loop'
import { FakeResolver } from 'svcdb/testkit'
import { PointsParser } from './points.ts'

const HOSTS = 1000
const POINTS_PER_BODY = 10_000
const FIELDS = ['user', 'system', 'idle', 'nice', 'iowait', 'irq', 'softirq', 'steal', 'guest', 'guest_nice'].map((f) => `usage_${f}`)
const wanted = Number(process.argv[2] ?? 500_000)

let state = 1
const random = () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32

function body(value: () => number): Buffer {
  const points = Array.from({ length: POINTS_PER_BODY }, (_, i) => {
    const tags = {
      hostname: `host_${i % HOSTS}`,
      region: 'eu-west-1',
      datacenter: 'eu-west-1a',
      rack: String(i % 100),
      os: 'Ubuntu16.04LTS',
      arch: 'x64',
      team: 'SF',
    }
    return { measurement: 'cpu', tags, fields: Object.fromEntries(FIELDS.map((f) => [f, value()])), timestamp: 1451606400 + i }
  })
  return Buffer.from(JSON.stringify(points))
}

function run(name: string, input: Buffer): void {
  const resolver = new FakeResolver()
  const parser = new PointsParser(resolver, 'default', 1 << 26, 7)
  const batch = new WriteBatch(resolver)
  const parse = () => {
    const { points } = atOnce(parser.parse(input, batch, { now: 0n, maxPoints: 1_000_000, maxFields: 1024 }))
    batch.reset()
    return points
  }
  parse()
  let points = 0
  let bytes = 0
  const start = process.hrtime.bigint()
  while (points < wanted) {
    points += parse()
    bytes += input.length
  }
  const seconds = Number(process.hrtime.bigint() - start) / 1e9
  console.log(
    `${name.padEnd(14)} ${Math.round(points / seconds)
      .toLocaleString('en')
      .padStart(10)} points/s ${(bytes / seconds / 1e6).toFixed(0).padStart(5)} MB/s`,
  )
}

run(
  'integers',
  body(() => Math.floor(random() * 101)),
)
run(
  'two decimals',
  body(() => Math.round(random() * 10_000) / 100),
)
run(
  '17 digits',
  body(() => random() * 100),
)
const text = body(() => Math.floor(random() * 101))
const start = performance.now()
for (let i = 0; i < 20; i++) JSON.parse(text.toString('utf8'))
console.log(`JSON.parse alone, for comparison: ${Math.round((20 * POINTS_PER_BODY) / ((performance.now() - start) / 1000)).toLocaleString('en')} points/s`)
