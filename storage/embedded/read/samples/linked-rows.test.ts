/** Rows of few series by their links against a look at all rows: late ones, repeated ones, chunks of many sizes, and rows that came after the snapshot. */
import t from 'tap'
import { Random } from '../../../conformance/random.ts'
import { TestDatabase, type TestPoint } from '../../testing/engine-state.ts'
import type { Snapshot } from '../../threads/state.ts'
import { LinkedRows } from './linked-rows.ts'

const seed = Number(process.env.SVC_SEED ?? Date.now() % 1e9)
const START = 1_700_000_000_000_000_000n
const MS = 1_000_000n

t.test(`few series of many, SVC_SEED=${seed}`, async (t) => {
  const random = new Random(seed)
  let followed = 0
  let several = 0
  for (let round = 0; round < 12; round++) {
    const db = new TestDatabase()
    const measurement = db.measurement('m', { f: 'float64' })
    const hosts = random.pick([200, 1000])
    for (let host = 0; host < hosts; host++) db.series(measurement, { host: `h${host}` })
    const late = random.pick([0, 0.01, 0.3])
    const size = random.pick([300, 3000, 15_000])
    let step = 0
    const write = (count: number): void => {
      const points = Array.from({ length: count }, (): TestPoint => {
        step++
        const at = random.chance(late) ? random.below(step) : step
        return { tags: { host: `h${random.below(hosts)}` }, time: START + BigInt(at) * MS + BigInt(random.below(2)), fields: { f: step } }
      })
      db.write(measurement, points)
    }
    for (let i = 0; i < 8; i++) write(1 + random.below(size))
    const part = (db.state.snapshotNow() as Snapshot).table(measurement.def.tables[0]).memtables[0]
    if (part.chunks.length > 1) several++
    if (random.chance(0.7)) write(1 + random.below(size))
    const links = new LinkedRows()
    const sets = Array.from(
      { length: 3 },
      () => new Set(Array.from({ length: 1 + random.below(4) }, () => part.chunks[0].series[random.below(part.counts[0])])),
    )
    for (let asked = 0; asked < 20; asked++) {
      const question = random.below(3)
      const wanted = random.pick(sets)
      const series = Int32Array.from(wanted).sort()
      const lo = START + BigInt(random.below(step)) * MS
      const range = random.pick([[lo, lo + BigInt(random.below(step)) * MS] as const, [-(2n ** 63n), 2n ** 63n - 1n] as const])
      const linked = random.chance(0.9)
      for (let c = 0; c < part.chunks.length; c++) {
        const chunk = part.chunks[c]
        const frame = links.of({ part, linked }, c, series, range, question)
        if (!linked) t.equal(frame, undefined)
        if (frame === undefined) continue
        followed++
        const right = Array.from({ length: part.counts[c] }, (_, row) => row)
          .filter((row) => wanted.has(chunk.series[row]) && chunk.timeAt(row) >= range[0] && chunk.timeAt(row) <= range[1])
          .sort((a, b) => chunk.series[a] - chunk.series[b] || Number(chunk.timeAt(a) - chunk.timeAt(b)) || a - b)
        if (right.join() !== frame.order.join()) t.fail(`chunk ${c}: ${frame.order.length} rows instead of ${right.length}, or in another order`)
        const times = right.map((row) => Number(chunk.timeAt(row) / MS))
        if (times.join() !== frame.times.join()) t.fail(`chunk ${c}: times`)
      }
      if (random.chance(0.2)) links.forget()
    }
    db.close()
  }
  t.ok(followed > 100, `${followed} chunks by links`)
  t.comment(`${several} of 12 memtables with several chunks`)
})
