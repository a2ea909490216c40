import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { COSTS, clickHouseSheet, clickHouseSizeOf, sheet, simulateMerges, sizeOf } from './sizing.ts'

const GIB = 2 ** 30
const MACHINE = { cores: 8, memoryBytes: 32 * GIB }

t.test('the guide has what the command prints', (t) => {
  const demands = [1e6, 1e7, 1e8].map((series) => ({ series, intervalSecs: 10, days: 30 }))
  const guide = readFileSync(join(import.meta.dirname, '../docs/guides/sizing.md'), 'utf8')
  t.ok(guide.includes(sheet(demands, MACHINE)), 'node scripts/sizing.ts')
  t.ok(guide.includes(clickHouseSheet(demands, MACHINE)), 'node scripts/sizing.ts, the second table')
  t.end()
})

t.test('merges: files stay few however much is written, and rows are rewritten by the logarithm', (t) => {
  const small = simulateMerges(4 ** 5 * 1000, 1000)
  t.equal(small.segments, 1)
  t.equal(small.rewrites, 5)
  t.ok(small.most <= 5 * 4)
  const large = simulateMerges(1000 * 3e6, 3e6)
  t.equal(large.rewrites, 1, 'a segment of four flushes is as large as one may be')
  t.equal(large.segments, 250)
  t.end()
})

t.test('what decides the number of nodes is named', (t) => {
  const demand = { series: 1e8, intervalSecs: 10, days: 1 }
  t.match(sizeOf(demand, MACHINE), { limit: 'main thread', nodes: Math.ceil((1e7 * COSTS.sampleMainMicros) / 1e6 / 0.5) })
  t.match(sizeOf(demand, { cores: 1, memoryBytes: 1024 * GIB }), { limit: 'processor', nodes: 15 })
  t.match(sizeOf({ ...demand, intervalSecs: 1000 }, { cores: 64, memoryBytes: 4 * GIB }), { limit: 'memory' })
  t.match(clickHouseSizeOf({ series: 1000, intervalSecs: 10, days: 1 }, MACHINE), { nodes: 1, shards: 1 })
  t.equal(sizeOf({ series: 1000, intervalSecs: 10, days: 1 }, MACHINE).nodes, 1)
  t.end()
})
