/** Measurements of large texts, and of very many fields, are exported whole where queries have as little memory as may be set. */
import { join } from 'node:path'
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet'
import { compressors } from 'hyparquet-compressors'
import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { at, opened, type Point, write } from '../testing/archiving.ts'
import { closeAndRemove, tempDir } from '../testing/harness.ts'

t.setTimeout(300_000)
const SEED = Number(process.env.SVC_SEED ?? Date.now() % 1_000_000)
const MIB = 1 << 20
const BYTES_AT_ONCE = 4 * MIB
const SERIES = 3
const POOL = Array.from({ length: 1 << 17 }, (_, i) => ((i * 2_654_435_761) >>> 0).toString(36).padStart(7, '0')).join('')

/** None comes twice. */
function text(random: () => number, bytes: number): string {
  const at = Math.floor(random() * (POOL.length - bytes))
  return POOL.slice(at, at + bytes - 12) + random().toFixed(10)
}

const texts = (random: () => number, fields: number, bytes: number): Point['fields'] =>
  Object.fromEntries(Array.from({ length: fields }, (_, i) => [`text${i}`, text(random, bytes)]))

interface Case {
  name: string
  rows: number
  rowBytes: number
  fields: (random: () => number, row: number) => Point['fields']
  /** Of merges, and so of row groups; the usual one when absent. */
  mergeLimit?: number
}

const CASES: Case[] = [
  { name: 'texts of 4 KiB, and a number', rows: 14_000, rowBytes: 4096, fields: (random, row) => ({ ...texts(random, 1, 4096), status: row % 7 }) },
  { name: 'texts of 60 KiB', rows: 600, rowBytes: 60_000, fields: (random) => texts(random, 1, 60_000) },
  { name: 'hundreds of texts', rows: 160, rowBytes: 200_000, fields: (random) => texts(random, 200, 1000) },
  {
    name: 'hundreds of numbers',
    rows: 700,
    rowBytes: 7200,
    fields: (_, row) => Object.fromEntries(Array.from({ length: 900 }, (_, i) => [`n${i}`, row + i / 8])),
  },
  { name: 'few texts, again and again', rows: 15_000, rowBytes: 6000, fields: (_, row) => ({ text: `${row % 3}`.repeat(6000) }) },
  { name: 'large row groups', rows: 7000, rowBytes: 8192, mergeLimit: 512 * MIB, fields: (random) => texts(random, 2, 4096) },
]

for (const { name, rows, rowBytes, fields, mergeLimit } of CASES)
  t.test(`${name}: seed ${SEED}`, async (t) => {
    const dir = tempDir()
    const limits = { per_query_memory_limit: 64 * MIB, ...(mergeLimit === undefined ? {} : { merge_memory_limit: mergeLimit }) }
    const engine = await opened(dir, undefined, { ...limits, query_threads: 1, query_parallelism: 2 })
    t.teardown(() => closeAndRemove(engine, dir))
    const fieldsOf = (row: number): Point['fields'] => fields(seeded(SEED + row), row)
    const timeOf = (row: number): bigint => at(1) + BigInt(row) * 1_000_000n
    const step = Math.max(1, Math.floor(BYTES_AT_ONCE / rowBytes))
    for (let row = 0; row < rows; row += step) {
      await write(
        engine,
        Array.from({ length: Math.min(step, rows - row) }, (_, i) => ({
          measurement: 'm',
          tags: ['host', `h${(row + i) % SERIES}`],
          time: timeOf(row + i),
          fields: fieldsOf(row + i),
        })),
      )
      if (row % (step * 8) === 0) await engine.flush()
    }
    const path = join(dir, 'exports', 'm.parquet')
    t.match(await engine.export({ namespace: '', measurement: 'm', path, maxBytes: 0 }), { rows, truncated: false })
    const file = await asyncBufferFromFile(path)
    const found = new Set<number>()
    let wrong = 0
    for (let from = 0; from < rows; from += step) {
      const read = await parquetReadObjects({ file, compressors, rowStart: from, rowEnd: Math.min(rows, from + step) })
      for (const { _time, host, ...values } of read) {
        const row = Math.round((_time as Date).getTime() - Number(at(1) / 1_000_000n))
        found.add(row)
        const expected = fieldsOf(row)
        if (host !== `h${row % SERIES}` || Object.keys(values).length !== Object.keys(expected).length) wrong++
        else if (Object.entries(expected).some(([key, value]) => values[key] !== value)) wrong++
      }
    }
    t.same([found.size, wrong], [rows, 0])
  })
