/** The order of a chunk's rows against a plain sort. */
import t from 'tap'
import { Random } from '../../../conformance/random.ts'
import { TestDatabase, type TestPoint } from '../../testing/engine-state.ts'
import type { Snapshot } from '../../threads/state.ts'
import { FrameSorter } from './chunk-frame.ts'

const seed = Number(process.env.SVC_SEED ?? Date.now() % 1e9)
const START = 1_700_000_000_000_000_000n

t.test(`rows by series, time and arrival, SVC_SEED=${seed}`, async (t) => {
  const random = new Random(seed)
  const sorter = new FrameSorter()
  for (const [hosts, unused] of [
    [1, 0],
    [40, 0],
    [700, 300],
    [5, 90_000], // far apart: more numbers than are counted in one go
  ]) {
    const db = new TestDatabase()
    const other = db.measurement('other', { f: 'float64' })
    const measurement = db.measurement('m', { f: 'float64' })
    for (let host = 0; host < hosts; host++) {
      for (let i = 0; i < unused / hosts; i++) db.series(other, { host: `o${host}-${i}` })
      db.series(measurement, { host: `h${host}` })
    }
    const backwards = random.chance(0.5)
    const fine = random.chance(0.5)
    const points = Array.from({ length: 3000 }, (_, i): TestPoint => {
      const step = backwards ? 3000 - i : random.chance(0.9) ? i : random.below(3000)
      const beyond = fine ? BigInt(random.below(3)) : 0n
      return { tags: { host: `h${random.below(hosts)}` }, time: START + BigInt(step >> 2) * 1_000_000n + beyond, fields: { f: i } }
    })
    db.write(measurement, points)
    const { chunks, counts } = (db.state.snapshotNow() as Snapshot).table(measurement.def.tables[0]).memtables[0]
    const chunk = chunks[0]
    const rows = random.pick([counts[0], 1 + random.below(counts[0])])
    const frame = sorter.frame(chunk, rows)
    const right = Array.from({ length: rows }, (_, row) => row).sort(
      (a, b) => chunk.series[a] - chunk.series[b] || Number(chunk.timeAt(a) - chunk.timeAt(b)) || a - b,
    )
    t.same([...frame.order], right, `${hosts} hosts, ${backwards ? 'backwards' : 'forwards'}`)
    const found: bigint[] = []
    for (let i = 0; i < rows; i++) found.push(BigInt(frame.times[i]) * 1_000_000n + BigInt(frame.rests?.[i] ?? 0))
    t.same(
      found,
      right.map((row) => chunk.timeAt(row)),
      'times',
    )
    t.same(frame.series, new Int32Array([...new Set(right.map((row) => chunk.series[row]))]), 'series')
    for (let s = 0; s < frame.series.length; s++)
      for (const at of [frame.starts[s], frame.starts[s + 1] - 1]) if (chunk.series[right[at]] !== frame.series[s]) t.fail(`series ${s} is not at ${at}`)
    const repeated = right.some((row, i) => i > 0 && chunk.series[row] === chunk.series[right[i - 1]] && frame.times[i] === frame.times[i - 1])
    t.equal(frame.duplicates, repeated, 'duplicates')
    db.close()
  }
})
