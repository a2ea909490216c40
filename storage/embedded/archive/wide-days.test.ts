/** Days of large texts, and of very many fields, are archived within the least memory that may be set. */
import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { archived, at, NONE, opened, type Point, sql, write } from '../testing/archiving.ts'
import { folderStore } from '../testing/folder-store.ts'
import { closeAndRemove, tempDir } from '../testing/harness.ts'

t.setTimeout(300_000)
const SEED = Number(process.env.SVC_SEED ?? Date.now() % 1_000_000)
const LIMIT = 64 << 20
const STEP = 500

const POOL = Array.from({ length: 1 << 17 }, (_, i) => ((i * 2_654_435_761) >>> 0).toString(36).padStart(7, '0')).join('')

/** None comes twice. */
function text(random: () => number, bytes: number): string {
  const at = Math.floor(random() * (POOL.length - bytes))
  return POOL.slice(at, at + bytes - 12) + random().toFixed(10)
}

interface Case {
  name: string
  rows: number
  fields: (random: () => number, row: number) => Point['fields']
  /** What is compared. */
  sums: string
}

const CASES: Case[] = [
  {
    name: 'lines of a log, and a number',
    rows: 20_000,
    fields: (random, row) => ({ line: text(random, 1200), status: row % 7 }),
    sums: 'sum(length(line)), sum(hash(line) % 1000000), sum(status)',
  },
  { name: 'one text, in a shared table', rows: 3000, fields: (random) => ({ line: text(random, 9000) }), sums: 'sum(length(line)), sum(hash(line) % 1000000)' },
  {
    name: 'hundreds of numbers',
    rows: 1000,
    fields: (_, row) => Object.fromEntries(Array.from({ length: 900 }, (_, i) => [`n${i}`, row + i / 8])),
    sums: 'sum(n0), sum(n300), sum(n899)',
  },
]

for (const { name, rows, fields, sums } of CASES)
  t.test(`${name}: seed ${SEED}`, async (t) => {
    const random = seeded(SEED)
    const [dir, folder] = [tempDir(), tempDir()]
    const engine = await opened(dir, folderStore(folder), { merge_memory_limit: LIMIT, maintenance_interval_secs: 3600, query_threads: 1 })
    t.teardown(() => closeAndRemove(engine, dir, folder))
    const point = (row: number, time: bigint): Point => ({
      measurement: 'm',
      tags: ['host', `h${row % 300}`, 'zone', `z${row % 3}`],
      time,
      fields: fields(random, row),
    })
    const put = async (from: number, to: number, time: (row: number) => bigint): Promise<void> => {
      for (let row = from; row < to; row += STEP)
        await write(
          engine,
          Array.from({ length: Math.min(STEP, to - row) }, (_, i) => point(row + i, time(row + i))),
        )
      await engine.flush()
    }
    const day = at(20) - (at(20) % 86_400_000_000_000n)
    await put(0, rows, (row) => day + BigInt(row) * 1_000_000_000n)
    // Some of them once more, and a day beside them.
    await put(0, STEP, (row) => day + BigInt(row) * 1_000_000_000n)
    await put(0, STEP, (row) => day + 86_400_000_000_000n + BigInt(row) * 1_000_000_000n)
    await put(0, 1, () => at(0))
    const query = `SELECT count(*)::DOUBLE AS n, ${sums}, host, zone FROM m GROUP BY host, zone ORDER BY host, zone`
    const before = await sql(engine, query)
    t.same(await archived(engine), { ...NONE, objects: 2, rows: rows + STEP })
    t.same(await sql(engine, query), before)
  })
