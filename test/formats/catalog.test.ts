/** The worked examples of docs/formats/catalog.md and of the manifest entry in docs/formats/segments.md are what the code reads and writes. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import t from 'tap'
import { INT64_MIN } from '../../storage/common/time.ts'
import { f64, lines, str, type TestPoint, write } from '../../storage/conformance/points.ts'
import { CatalogStore } from '../../storage/embedded/catalog/store.ts'
import { decodeValue, encodeValue } from '../../storage/embedded/catalog/value.ts'
import { cutoffFor } from '../../storage/embedded/retention/cutoffs.ts'
import { loadCutoffs, type StoredCutoffs, storeCutoffs } from '../../storage/embedded/retention/stored.ts'
import { closeAndRemove, openEngine, tempDir } from '../../storage/embedded/testing/harness.ts'
import type { SegmentMeta } from '../../storage/embedded/threads/segment-entry.ts'

const page = (name: string): string => readFileSync(new URL(`../../docs/formats/${name}`, import.meta.url), 'utf8')
const block = (text: string, kind: string): string => new RegExp(`\`\`\`${kind}\n([^\`]*)\`\`\``).exec(text)?.[1] ?? ''

t.test('the example of a value', async (t) => {
  const catalog = page('catalog.md')
  const [, key, value] = /The entry `([^`]+)` with the value `([^`]+)`/.exec(catalog) as RegExpExecArray
  const example = Buffer.from(block(catalog, 'hex').replace(/\s/g, ''), 'hex')
  t.equal(String(decodeValue(key, example)), value)
  t.same(encodeValue(key, Buffer.from(value)), example)
})

t.test('the example of retention cutoffs', async (t) => {
  const stored = JSON.parse(block(page('catalog.md'), 'json retention')) as StoredCutoffs
  const cutoffs = loadCutoffs(stored)
  t.same(storeCutoffs(cutoffs), stored)
  const masked = (measurement: number) => [6, 11, 12].map((sequence) => cutoffFor(cutoffs, measurement, { sequence, cleared: 0 }))
  t.same(masked(1), [1_704_106_800_000_000_000n, 1_703_505_600_000_000_000n, INT64_MIN])
  t.same(masked(2), [1_704_110_400_000_000_000n, 1_704_110_400_000_000_000n, INT64_MIN])
  t.same(masked(4), [INT64_MIN, INT64_MIN, INT64_MIN])
})

t.test('the example of a manifest entry', async (t) => {
  const segments = page('segments.md')
  const points = JSON.parse(block(segments, 'json points')) as { tags: Record<string, string>; time: string; fields: Record<string, number | string> }[]
  const dir = tempDir()
  const engine = await openEngine(dir)
  for (const { tags, time, fields } of points) {
    const values = Object.entries(fields).map(([name, value]) => [name, typeof value === 'number' ? f64(value) : str(value)] as const)
    const point: TestPoint = { measurement: 'm', tags, time: BigInt(time), fields: Object.fromEntries(values) }
    t.match(await write(engine, [point], { namespace: '', backfill: true }), { written: 1 })
  }
  await engine.flush()
  t.equal((await lines(engine, { namespace: '', measurement: 'm' })).length, 3)
  await engine.close()
  const store = await CatalogStore.open(join(dir, 'catalog'), false)
  const { bytes, crc, ...entry } = store.getJson<SegmentMeta>('segment/0000000001') as SegmentMeta
  const sum = store.getJson<{ entries: number }>('meta/sum')
  t.equal([...store.db.getKeys({})].length - 2, sum?.entries, 'all but the mark of the version and the sum itself')
  await store.close()
  t.same(entry, JSON.parse(block(segments, 'json entry')))
  const file = readFileSync(join(dir, entry.file))
  t.equal(file.length, bytes)
  t.equal(crc32(file), crc)
  await closeAndRemove(engine, dir)
})
