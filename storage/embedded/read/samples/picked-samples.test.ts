/** Samples of which some may be left out, and those of packed blocks, against all of them out of blocks as they were read: whatever was written, deleted and kept before. */
import { type SampleRequest, type SampleRows, type SampleWindows, TableBatch } from 'svcdb/lib/columns'
import t, { type Test } from 'tap'
import { Random } from '../../../conformance/random.ts'
import { TestDatabase } from '../../testing/engine-state.ts'
import type { Snapshot } from '../../threads/state.ts'
import { FieldRows } from './field-rows.ts'
import { selectSamples } from './select.ts'
import { SampleBlocks } from './source-blocks.ts'

const seed = Number(process.env.SVC_SEED ?? Date.now() % 1e9)
const START = 1_700_000_000_000
const MS = 1_000_000n
const START_NS = BigInt(START) * MS
const NAN = 0x7ff80000

interface Series {
  times: number[]
  bits: bigint[]
  /** Places among all of the series; absent where none were left out. */
  places: number[] | undefined
}

async function read(db: TestDatabase, blocks: SampleBlocks, request: Partial<SampleRequest>): Promise<Map<number, Series>> {
  const context = { ...(await db.context()), sampleBlocks: blocks }
  const set = await selectSamples(context, db.state.snapshotNow() as Snapshot, { namespace: 'default', measurement: 'm', field: 'f', ...request }, undefined)
  const out = new Map<number, Series>()
  for await (const rows of set.blocks())
    for (let s = 0; s + 1 < rows.starts.length; s++) if (rows.starts[s] < rows.starts[s + 1]) out.set(set.series[rows.first + s], ofSeries(rows, s))
  return out
}

/** The same samples as SQL reads them; undefined where they are not all there is to rows. */
async function scan({ db, measurement }: Writer, blocks: SampleBlocks, start: bigint): Promise<Map<number, [number, number][]> | undefined> {
  const context = { ...(await db.context()), sampleBlocks: blocks }
  const { def } = measurement
  const rows = new FieldRows(context, db.state.snapshotNow() as Snapshot, { measurement: def, time: [start, 2n ** 63n - 1n], signal: undefined })
  const out = new Map<number, [number, number][]>()
  const whole = await rows.scan({
    fields: def.fields.filter(({ name }) => name === 'f'),
    sparse: true,
    passes: 300_000, // a few rows at a time
    visit({ times, runs, values }) {
      const { values: read, divisor } = values(0)
      let all = 0
      for (let i = 0; i < runs.length; i += 3) all += runs[i + 2] - runs[i + 1]
      if (all > 3) throw new Error(`${all} rows at once`)
      for (let i = 0; i < runs.length; i += 3) {
        const own = out.get(rows.series[runs[i]]) ?? []
        out.set(rows.series[runs[i]], own)
        for (let row = runs[i + 1]; row < runs[i + 2]; row++) own.push([times[row], divisor === undefined ? read[row] : read[row] / divisor])
      }
      return true
    },
  })
  for (const own of out.values()) own.sort(([a], [b]) => a - b)
  return whole ? out : undefined
}

function ofSeries({ starts, times, values, ordinals, kinds }: SampleRows, s: number): Series {
  const [from, to] = [starts[s], starts[s + 1]]
  const bits = [...new BigInt64Array(values.slice(from, to).buffer)].map((one, i) => one * 4n + BigInt(kinds?.[from + i] ?? 0))
  return { times: [...times.slice(from, to)], bits, places: ordinals === undefined ? undefined : [...ordinals.slice(from, to)] }
}

/** @throws Error when something is missing that windows or falls need. @returns samples left out. */
function check({ times, bits, places }: Series, all: Series, { first, interval, count, range }: SampleWindows): number {
  const own = places ?? times.map((_, i) => i)
  if (places === undefined && own.length !== all.times.length) throw new Error(`${own.length} samples of ${all.times.length}, without their places`)
  for (const [i, place] of own.entries()) {
    if (i > 0 && place <= own[i - 1]) throw new Error('places do not ascend')
    if (times[i] !== all.times[place] || bits[i] !== all.bits[place])
      throw new Error(`sample ${place} is not what it was: ${times[i]}, not ${all.times[place]}`)
  }
  const given = new Set(own)
  const need = (place: number, why: string): void => {
    if (!given.has(place)) throw new Error(`sample ${place} of ${all.times.length} is missing: ${why}`)
  }
  for (let w = 0; w < count; w++) {
    const end = first + w * interval
    const from = all.times.findIndex((time) => time > end - range)
    const to = all.times.findLastIndex((time) => time <= end)
    if (from < 0 || to < from) continue
    need(from, `the first of window ${w}`)
    need(to, `the last of window ${w}`)
  }
  const values = new Float64Array(BigInt64Array.from(all.bits, (one) => one >> 2n).buffer)
  for (let place = 1; place < values.length; place++) {
    if (values[place] >= values[place - 1]) continue
    need(place, 'values fall')
    need(place - 1, 'values fall after it')
  }
  return all.times.length - own.length
}

class Writer {
  readonly db = new TestDatabase()
  readonly measurement: ReturnType<TestDatabase['measurement']>
  private readonly random: Random
  private readonly series: number[]
  private readonly totals: number[]
  private readonly falling: number
  private readonly fraction: number
  private readonly odd: number
  private readonly lacking: number
  private now = 0
  private deletes = 0

  constructor(random: Random, shared: boolean) {
    this.random = random
    this.measurement = this.db.measurement('m', { f: 'float64', g: 'float64' }, shared ? { shared: 7 } : {})
    this.lacking = random.pick([0, 0, 0.05])
    this.series = Array.from({ length: random.pick([2, 5]) }, (_, i) => this.db.series(this.measurement, { host: `h${i}` }))
    this.totals = this.series.map(() => random.pick([0, 2 ** 31 - 1000, -(2 ** 31)]))
    this.falling = random.pick([0, 0.001, 0.02])
    this.fraction = random.pick([1, 100, 3])
    this.odd = random.pick([0, 0, 0.002])
    this.db.config.rowGroupRows = random.pick([2048, 32_768])
  }

  get end(): number {
    return this.now
  }

  /** Mostly in order of time. */
  write(rows: number): void {
    const { random } = this
    const batch = new TableBatch(this.measurement.ref)
    const column = batch.column('f', 'float64')
    const second = batch.column('g', 'float64')
    for (let i = 0; i < rows; i++) {
      const host = random.below(this.series.length)
      this.now += 1 + random.below(2)
      this.totals[host] = random.chance(this.falling) ? random.below(5) : this.totals[host] + random.below(50)
      const late = random.chance(0.0005) ? random.below(400) : 0
      const time = BigInt(START + Math.max(0, this.now - late)) * MS + (random.chance(this.odd / 10) ? 1n : 0n)
      const row = batch.addRow(this.series[host], Number(BigInt.asIntN(32, time)), Number(time >> 32n), 0)
      column.setF64(row, this.totals[host] / this.fraction)
      if (!random.chance(this.lacking)) second.setF64(row, random.below(1000) / 10)
      if (random.chance(this.odd)) column.setF64(row, -0)
      if (!random.chance(this.odd)) continue
      // Staleness markers, and other NaN.
      column.setPair(row, random.pick([0, 2]), random.pick([NAN, 0x7ff00000]) | (random.chance(0.5) ? 1 : 0))
      column.nonFinite = true
    }
    this.db.append(this.measurement, batch)
  }

  delete(): void {
    const { random, db } = this
    db.freeze()
    const { sequence } = db.memtable
    const start = BigInt(START + random.below(this.now)) * MS + BigInt(random.pick([0, 1]))
    const end = start + BigInt(random.below(60)) * MS
    const series = random.chance(0.5) ? null : Int32Array.from(this.series.slice(1)).sort()
    db.publish({ kind: 'tombstones', added: [{ id: ++this.deletes, measurement: this.measurement.def.id, sequence, series, start, end }], removed: [] })
  }
}

async function run(t: Test, random: Random, left: { picked: number; packed: number; rows: number; inFiles: number }): Promise<void> {
  // Measurements of a shared table are not packed.
  const writer = new Writer(random, random.chance(0.2))
  const { db } = writer
  // Little room, so that blocks are packed; or so little that they are not kept, or only in files.
  const files = { directory: db.config.tempDir, budget: random.pick([20_000, 1 << 20]), name: 'test' }
  const small = new SampleBlocks(random.pick([10_000, 30_000]), random.chance(0.6) ? files : undefined)
  const frozen: number[] = []
  try {
    for (let step = 0; step < 25; step++) {
      writer.write(200)
      if (random.chance(0.4)) frozen.push(db.freeze())
      if (random.chance(0.8) && frozen.length > 0) await db.flush(frozen.shift())
      if (random.chance(0.1)) {
        // As a delete that the memtable holds rows of.
        frozen.push(db.memtable.id)
        writer.delete()
      }
      if (step < 8 || random.chance(0.5)) continue
      const [interval, count] = [1 + random.below(400), 1 + random.below(6)]
      // A window may end at the very last sample, as that of a question up to now.
      const last = START + writer.end - (count - 1) * interval
      const first = random.chance(0.3) ? last : START + random.below(writer.end) + random.pick([0, 0.5])
      const windows = { first, interval, count, range: 1 + random.below(500) }
      const field = random.pick(['f', 'f', 'g'])
      const start: Partial<SampleRequest> = random.chance(0.5) ? { start: BigInt(START + random.below(writer.end)) * MS } : {}
      const within = { ...start, field }
      const all = await read(db, new SampleBlocks(64 << 20), within)
      const whole = await read(db, small, within)
      t.strictSame([...whole], [...all], 'packed')
      left.packed += all.size
      const rows = await scan(writer, small, within.start ?? START_NS)
      t.strictSame(rows, await scan(writer, new SampleBlocks(64 << 20), within.start ?? START_NS), 'packed rows')
      if (rows !== undefined) left.rows += rows.size
      const picked = await read(db, small, { ...within, windows })
      t.strictSame([...picked.keys()], [...all.keys()])
      for (const [series, own] of picked) left.picked += check(own, all.get(series) as Series, windows)
      left.inFiles += small.fileBytes
    }
  } finally {
    small.close()
    db.close()
  }
}

const RUNS = Number(process.env.SVC_RUNS ?? 6)
const MOST_RUNS = 10 * RUNS

t.test(`samples between the ends of windows may be left out, SVC_SEED=${seed}`, async (t) => {
  const random = new Random(seed)
  const left = { picked: 0, packed: 0, rows: 0, inFiles: 0 }
  // Some rows are not packed, whatever the room: it goes on until all ways were taken, or longer than chance explains.
  const isLacking = (): boolean => Object.values(left).includes(0)
  for (let i = 0; i < RUNS || (i < MOST_RUNS && isLacking()); i++) await run(t, random, left)
  t.ok(left.packed > 0)
  t.ok(left.rows > 0)
  t.ok(left.inFiles > 0)
  t.ok(left.picked > 0, `${left.picked} samples were left out`)
})
