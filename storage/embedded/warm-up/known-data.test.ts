import t from 'tap'
import { BLOCK_ROWS } from '../memtable/chunk-view.ts'
import { TestDatabase } from '../testing/engine-state.ts'
import { lookThrough } from './known-data.ts'

const HOSTS = 100
/** Ten blocks and a part of one, of each measurement. */
const ROWS = 10 * BLOCK_ROWS + 100

/** What was looked at in so many steps: measurements by number, and blocks of memtables. */
function looked(t: { teardown(end: () => void): unknown }, steps: number): { keys: number[]; blocks: number } {
  const database = new TestDatabase()
  t.teardown(() => database.close())
  for (const name of ['cpu', 'disk']) {
    const measurement = database.measurement(name, { v: 'float64' })
    const points = Array.from({ length: ROWS }, (_, i) => ({ tags: { host: `h${i % HOSTS}` }, time: BigInt(i), fields: { v: i } }))
    database.write(measurement, points)
  }
  const { state } = database
  const found = { keys: [] as number[], blocks: 0 }
  const { series } = state
  const tagKeys = series.tagKeys.bind(series)
  series.tagKeys = (measurement) => {
    found.keys.push(measurement)
    return tagKeys(measurement)
  }
  for (const { tables } of state.memtables)
    for (const { chunks } of tables.values())
      for (const chunk of chunks) {
        const intersects = chunk.blockIntersects.bind(chunk)
        chunk.blockIntersects = (from, n, lo, hi) => {
          found.blocks += n === BLOCK_ROWS && from % BLOCK_ROWS === 0 ? 1 : 0
          return intersects(from, n, lo, hi)
        }
      }
  const look = lookThrough(state)
  for (let step = 0; step <= steps && look.next().done !== true; step++);
  return found
}

t.test('all measurements and full blocks are looked at', (t) => {
  t.same(looked(t, Number.POSITIVE_INFINITY), { keys: [0, 1], blocks: 20 })
  t.end()
})

t.test('a measurement at a time', (t) => {
  t.same(looked(t, 1), { keys: [0], blocks: 0 })
  t.end()
})
