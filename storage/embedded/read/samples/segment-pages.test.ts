/** Segments whose pages are not understood, are damaged or gone: DuckDB reads them, or says what is wrong. */
import { copyFileSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { SampleRequest } from 'svcdb/lib/columns'
import t from 'tap'
import { sqlText } from '../../duckdb/duckdb.ts'
import { TestDatabase } from '../../testing/engine-state.ts'
import type { SegmentMeta } from '../../threads/segment-entry.ts'
import type { Snapshot } from '../../threads/state.ts'
import { selectActive, selectSamples } from './select.ts'
import { SampleBlocks } from './source-blocks.ts'

const START = 1_700_000_000_000_000_000n
const REQUEST: SampleRequest = { namespace: 'default', measurement: 'm', field: 'f' }

interface Subject {
  db: TestDatabase
  segment: SegmentMeta
  path: string
}

async function filled(): Promise<Subject> {
  const db = new TestDatabase()
  const m = db.measurement('m', { f: 'float64' })
  db.write(
    m,
    Array.from({ length: 5000 }, (_, i) => ({ tags: { host: `h${i % 7}` }, time: START + BigInt(i) * 1_000_000n, fields: { f: (i % 100) / 10 } })),
  )
  const [segment] = await db.flush()
  return { db, segment, path: join(db.dataDir, segment.file) }
}

async function read({ db }: Subject, sampleBlocks: SampleBlocks): Promise<string> {
  const set = await selectSamples({ ...(await db.context()), sampleBlocks }, db.state.snapshotNow() as Snapshot, REQUEST, undefined)
  const out: string[] = []
  for await (const { starts, times, values } of set.blocks()) out.push(`${starts} ${times} ${values}`)
  return out.join('\n')
}

async function active({ db }: Subject, sampleBlocks: SampleBlocks): Promise<number[]> {
  const { series } = await selectActive({ ...(await db.context()), sampleBlocks }, db.state.snapshotNow() as Snapshot, REQUEST, undefined)
  return [...series]
}

t.test('a codec that the reader does not know', async (t) => {
  const subject = await filled()
  t.teardown(() => subject.db.close())
  const { db, segment, path } = subject
  const known = new SampleBlocks(1 << 20)
  const right = await read(subject, known)
  t.equal(known.refusedSegments, 0)
  const other = join(db.dataDir, 'segments', 'other.parquet')
  const { duck } = await db.context()
  await duck.run(`COPY (SELECT * FROM read_parquet(${sqlText(path)})) TO ${sqlText(other)} (FORMAT PARQUET, COMPRESSION SNAPPY)`)
  copyFileSync(other, path)
  segment.bytes = statSync(path).size
  const blocks = new SampleBlocks(1 << 20)
  t.equal(await read(subject, blocks), right)
  t.same(await active(subject, blocks), [0, 1, 2, 3, 4, 5, 6])
  t.equal(await read(subject, blocks), right, 'again')
  t.equal(blocks.refusedSegments, 1, 'it is not tried again')
})

t.test('a damaged file is an error, not other samples and not a crash', async (t) => {
  const subject = await filled()
  t.teardown(() => subject.db.close())
  const bytes = readFileSync(subject.path)
  bytes.fill(0xff, 4, bytes.length - 8)
  writeFileSync(subject.path, bytes)
  const blocks = new SampleBlocks(1 << 20)
  await t.rejects(read(subject, blocks))
  t.equal(blocks.refusedSegments, 1)
  rmSync(subject.path)
  await t.rejects(read(subject, new SampleBlocks(1 << 20)), /0000000001.parquet/, 'one that is gone is named')
})
