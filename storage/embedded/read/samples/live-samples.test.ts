/** What questions over rows that are being written keep: a fraction of what they read, decoded. */
import { type SampleRequest, TableBatch } from 'svcdb/lib/columns'
import t from 'tap'
import { TestDatabase } from '../../testing/engine-state.ts'
import type { Snapshot } from '../../threads/state.ts'
import { FieldRows } from './field-rows.ts'
import { selectSamples } from './select.ts'
import { SampleBlocks } from './source-blocks.ts'

const START = 1_700_000_000_000
const HOSTS = 1000
const ROUNDS = 75
const SEGMENTS = 3
/** Twice what all samples take decoded. */
const BUDGET = HOSTS * ROUNDS * (SEGMENTS + 1) * 24
/** Of a sample: a quarter of them lie in the memtable, decoded, the others packed, beside memory that is used again. Decoded, all take 13. */
const MOST_BYTES = 9

/** Rows of all hosts come each `roundMs`, and are flushed, all but the last ones. */
async function written(roundMs: number) {
  const db = new TestDatabase()
  const measurement = db.measurement('m', { f: 'float64' })
  const hosts = Array.from({ length: HOSTS }, (_, i) => db.series(measurement, { host: `h${i}` }))
  let at = START
  for (let segment = 0; segment <= SEGMENTS; segment++) {
    for (let round = 0; round < ROUNDS; round++, at += roundMs) {
      const batch = new TableBatch(measurement.ref)
      const column = batch.column('f', 'float64')
      for (const host of hosts) {
        const time = BigInt(at) * 1_000_000n
        column.setF64(batch.addRow(host, Number(BigInt.asIntN(32, time)), Number(time >> 32n), 0), (at - START) / roundMs)
      }
      db.append(measurement, batch)
    }
    if (segment < SEGMENTS) await db.flush()
  }
  const blocks = new SampleBlocks(BUDGET)
  const context = { ...(await db.context()), sampleBlocks: blocks }
  const snapshot = db.state.snapshotNow() as Snapshot
  const samples = async (request: Partial<SampleRequest>): Promise<number> => {
    const set = await selectSamples(context, snapshot, { namespace: 'default', measurement: 'm', field: 'f', ...request }, undefined)
    let read = 0
    for await (const { times } of set.blocks()) read += times.length
    return read
  }
  const sum = async (): Promise<number> => {
    const { def } = measurement
    const rows = new FieldRows(context, snapshot, { measurement: def, time: [0n, 2n ** 63n - 1n], signal: undefined })
    let total = 0
    const visit: Parameters<FieldRows['scan']>[0]['visit'] = ({ runs, values }) => {
      const { values: read, divisor = 1 } = values(0)
      for (let i = 0; i < runs.length; i += 3) for (let row = runs[i + 1]; row < runs[i + 2]; row++) total += read[row] / divisor
      return true
    }
    t.ok(await rows.scan({ fields: def.fields, sparse: true, passes: 1, visit }))
    return total
  }
  const all = HOSTS * ROUNDS * (SEGMENTS + 1)
  return { samples, sum, all, bytesEach: () => blocks.bytes / all, end: at }
}

const sumOf = (rounds: number): number => (HOSTS * rounds * (rounds - 1)) / 2

t.test('a question that leaves most samples out keeps them packed, though they have room decoded', async (t) => {
  const { samples, all, bytesEach, end } = await written(1000)
  for (let again = 0; again < 3; again++) {
    const windows = { first: START + 60_007, interval: 60_000, count: Math.floor((end - START) / 60_000), range: 60_000 }
    t.ok((await samples({ windows })) < all / 2)
    t.ok(bytesEach() < MOST_BYTES, `${bytesEach().toFixed(1)} bytes a sample`)
  }
  t.equal(await samples({}), all, 'whole, they are what they were')
})

t.test('a statement over rows that come by the ten thousand a second keeps them packed', async (t) => {
  const { sum, bytesEach } = await written(50)
  for (let again = 0; again < 3; again++) {
    t.equal(await sum(), sumOf(ROUNDS * (SEGMENTS + 1)))
    t.ok(bytesEach() < MOST_BYTES, `${bytesEach().toFixed(1)} bytes a sample`)
  }
})

t.test('one over rows that come slowly has them decoded', async (t) => {
  const { sum, bytesEach } = await written(10_000)
  for (let again = 0; again < 3; again++) t.equal(await sum(), sumOf(ROUNDS * (SEGMENTS + 1)))
  t.ok(bytesEach() > MOST_BYTES, `${bytesEach().toFixed(1)} bytes a sample`)
})
