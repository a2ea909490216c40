/** Corrupt segment files: noticed before they are read, named, never read as something else; everything else is served. */
import { copyFileSync, existsSync, readdirSync, readFileSync, renameSync, rmSync, truncateSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { MetricsRegistry } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { eventually } from '../../../test/support/until.ts'
import { testContext } from '../../conformance/index.ts'
import { EmbeddedEngine } from '../engine.ts'
import { SegmentVerifier } from '../segment/verify.ts'
import { closeAndRemove, NOW, NOW_MS, openEngine, rowsOf, tempDir, writeFloat } from '../testing/harness.ts'
import { fileCrc } from './file-crc.ts'
import { setTrust, Trust, trustOf, trustTable } from './trust.ts'

const ROWS = 40

function segmentFiles(dir: string): string[] {
  return readdirSync(join(dir, 'segments'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.parquet'))
    .map((name) => `segments/${name}`)
    .sort()
}

function flip(path: string, at = 0.5): void {
  const bytes = readFileSync(path)
  bytes[Math.floor(bytes.length * at)] ^= 4
  writeFileSync(path, bytes)
}

/** A closed database with one segment each of two measurements; their files and rows. */
async function twoMeasurements(): Promise<{ dir: string; bad: string; good: string; badRows: string[]; goodRows: string[] }> {
  const dir = tempDir()
  const engine = await openEngine(dir)
  const files: string[] = []
  for (const name of ['bad', 'good']) {
    for (let i = 0; i < ROWS; i++) await writeFloat(engine, name, `h${i % 3}`, NOW + BigInt(i), { v: i / 2, w: i / 3 })
    await engine.flush()
    files.push(...segmentFiles(dir).filter((file) => !files.includes(file)))
  }
  const [badRows, goodRows] = [await rowsOf(engine, 'bad'), await rowsOf(engine, 'good')]
  await engine.close()
  return { dir, bad: files[0], good: files[1], badRows, goodRows }
}

async function openWatched(dir: string, config: Record<string, unknown> = {}) {
  const errors: string[] = []
  const registry = new MetricsRegistry()
  const log = { debug() {}, info() {}, warn() {}, error: (...line: unknown[]) => void errors.push(JSON.stringify(line, errorText)) }
  const engine = new EmbeddedEngine({ ...testContext({ data_dir: dir, ...config }, () => NOW_MS), log, metrics: registry.child('storage') })
  await engine.open()
  const metric = async (name: string): Promise<number> => Number(new RegExp(`${name} (\\d+)`).exec(await registry.text())?.[1])
  return { engine, errors, corrupted: () => metric('damaged_segments'), skipped: () => metric('delete_segments_skipped_total') }
}

/** @throws what opening throws. */
async function refused(dir: string): Promise<void> {
  const engine = new EmbeddedEngine(testContext({ data_dir: dir }, () => NOW_MS))
  try {
    await engine.open()
  } finally {
    await engine.close()
  }
}

const errorText = (_: string, value: unknown): unknown => (value instanceof Error ? value.message : value)

async function sqlRows(engine: EmbeddedEngine, query: string): Promise<number> {
  const job = engine.run<number>(new URL('../testing/count-job.ts', import.meta.url), { namespace: '', query })
  for await (const _ of job.output) throw new Error('the job emits nothing')
  return job.result
}

t.test('a flipped bit: what needs the segment fails and names it, the rest is served', async (t) => {
  const { dir, bad, badRows, goodRows } = await twoMeasurements()
  copyFileSync(join(dir, bad), join(dir, 'saved'))
  flip(join(dir, bad))
  const { engine, errors, corrupted, skipped } = await openWatched(dir, { scrub_bytes_per_sec: 65_536 })
  await t.rejects(sqlRows(engine, 'SELECT * FROM bad'), { code: 'DATABASE_ERROR', message: new RegExp(bad) }, 'by SQL')
  await t.rejects(rowsOf(engine, 'bad'), { code: 'DATABASE_ERROR', message: new RegExp(bad) }, 'by scan, again')
  await t.rejects(sqlRows(engine, 'SELECT * FROM good JOIN bad USING (_time)'), { code: 'DATABASE_ERROR' }, 'in a join')
  t.equal(await sqlRows(engine, 'SELECT * FROM good'), ROWS)
  t.same(await rowsOf(engine, 'good'), goodRows)
  t.equal(errors.length, 1, 'logged once')
  t.match(errors[0], bad)
  t.equal(await corrupted(), 1)
  // Merges leave it alone, and go on beside it.
  for (let i = 0; i < 5; i++) {
    await writeFloat(engine, 'bad', 'h0', NOW + BigInt(100 + i), { v: i })
    await engine.flush()
  }
  await eventually(() => segmentFiles(dir).length <= 4)
  t.ok(existsSync(join(dir, bad)))
  t.equal(errors.length, 1, 'no merge has failed')
  t.match(await engine.delete({ namespace: '', measurement: 'bad', end: NOW + 1n }), { segmentsSkipped: 1 })
  t.equal(await skipped(), 1)
  await engine.close()

  await t.rejects(refused(dir), { code: 'DATABASE_ERROR', message: new RegExp(bad) }, 'the next start refuses')
  copyFileSync(join(dir, 'saved'), join(dir, bad))
  const restored = await openEngine(dir)
  const rows = await rowsOf(restored, 'bad')
  t.same(rows, [...badRows.slice(1), ...[0, 1, 2, 3, 4].map((i) => `h0 ${NOW + BigInt(100 + i)} v=${i}`)].sort(), 'restored from a backup, all is there')
  await closeAndRemove(restored, dir)
})

t.test('a corrupt segment is set aside at the next start when the setting says so', async (t) => {
  const { dir, bad, goodRows } = await twoMeasurements()
  flip(join(dir, bad), 0.1)
  const first = await openWatched(dir, { damaged_segments: 'set_aside' })
  await t.rejects(rowsOf(first.engine, 'bad'), { code: 'DATABASE_ERROR' }, 'not while it runs')
  await first.engine.close()
  const second = await openWatched(dir, { damaged_segments: 'set_aside' })
  t.same(await rowsOf(second.engine, 'bad'), [])
  t.same(await rowsOf(second.engine, 'good'), goodRows)
  t.ok(existsSync(join(dir, 'damaged', bad)))
  t.match(second.errors, [new RegExp(`${bad}.*set aside`)])
  t.equal(await second.corrupted(), 0)
  await second.engine.close()
  const third = await openWatched(dir)
  t.same(third.errors, [], 'no trace is left')
  await closeAndRemove(third.engine, dir)
})

const CORRUPTIONS: Record<string, (path: string) => void> = {
  missing: (path) => unlinkSync(path),
  'without content': (path) => truncateSync(path, 0),
  'cut off': (path) => truncateSync(path, readFileSync(path).length - 1),
  longer: (path) => writeFileSync(path, Buffer.concat([readFileSync(path), Buffer.alloc(1)])),
}

for (const [name, corruption] of Object.entries(CORRUPTIONS)) {
  t.test(`a segment file that is ${name} stops the start by name, or is set aside`, async (t) => {
    const { dir, bad, goodRows } = await twoMeasurements()
    corruption(join(dir, bad))
    await t.rejects(refused(dir), { code: 'DATABASE_ERROR', message: new RegExp(bad) })
    const { engine } = await openWatched(dir, { damaged_segments: 'set_aside' })
    t.same(await rowsOf(engine, 'bad'), [])
    t.same(await rowsOf(engine, 'good'), goodRows)
    t.equal(existsSync(join(dir, 'damaged', bad)), name !== 'missing')
    await closeAndRemove(engine, dir)
  })
}

t.test('two segments that were swapped are noticed, whatever their sizes', async (t) => {
  const { dir, bad, good } = await twoMeasurements()
  const sizes = [bad, good].map((file) => readFileSync(join(dir, file)).length)
  renameSync(join(dir, bad), join(dir, 'x'))
  renameSync(join(dir, good), join(dir, bad))
  renameSync(join(dir, 'x'), join(dir, good))
  if (sizes[0] !== sizes[1]) await t.rejects(refused(dir), { code: 'DATABASE_ERROR' })
  else {
    const engine = await openEngine(dir)
    for (const name of ['bad', 'good']) await t.rejects(rowsOf(engine, name), { code: 'DATABASE_ERROR' })
    await engine.close()
  }
  rmSync(dir, { recursive: true })
})

t.test('files in segments/ that nobody wrote change nothing', async (t) => {
  const { dir, good, badRows } = await twoMeasurements()
  writeFileSync(join(dir, 'segments', '0000009999.parquet'), 'garbage')
  copyFileSync(join(dir, good), join(dir, 'segments', '0000000077.parquet'))
  const engine = await openEngine(dir)
  t.same(await rowsOf(engine, 'bad'), badRows)
  await closeAndRemove(engine, dir)
})

t.test('the background check finds corruption that no query has met', async (t) => {
  for (const segment_verification of ['background', 'first_use']) {
    const { dir, bad, goodRows } = await twoMeasurements()
    flip(join(dir, bad), 0.9)
    const { engine, errors, corrupted } = await openWatched(dir, { segment_verification })
    await eventually(async () => (await corrupted()) === 1)
    t.match(errors, [new RegExp(bad)], segment_verification)
    await t.rejects(rowsOf(engine, 'bad'), { code: 'DATABASE_ERROR' })
    t.same(await rowsOf(engine, 'good'), goodRows)
    await closeAndRemove(engine, dir)
  }
})

t.test('everything is read again when the interval has passed', async (t) => {
  const { dir, bad, badRows } = await twoMeasurements()
  const { engine, corrupted } = await openWatched(dir, { scrub_interval_secs: 1 })
  t.same(await rowsOf(engine, 'bad'), badRows)
  flip(join(dir, bad), 0.3)
  await eventually(async () => (await corrupted()) === 1)
  await t.rejects(rowsOf(engine, 'bad'), { code: 'DATABASE_ERROR' })
  await closeAndRemove(engine, dir)
})

t.test('switched off, nothing is compared', async (t) => {
  const { dir, bad, goodRows } = await twoMeasurements()
  flip(join(dir, bad), 0.3)
  const { engine, corrupted } = await openWatched(dir, { segment_verification: 'off', scrub_interval_secs: 1 })
  t.same(await rowsOf(engine, 'good'), goodRows)
  await new Promise((resolve) => setTimeout(resolve, 1500))
  t.equal(await corrupted(), 0)
  await closeAndRemove(engine, dir)
})

async function oneFile(t: Test) {
  const dir = tempDir()
  t.teardown(() => rmSync(dir, { recursive: true }))
  writeFileSync(join(dir, 'f'), Buffer.alloc(3 << 20, 7))
  const { crc, bytes } = await fileCrc(join(dir, 'f'))
  const meta = { id: 3, file: 'f', bytes, crc } as Parameters<SegmentVerifier['ensure']>[0][number]
  const trust = trustTable([3])
  setTrust(trust, 3, Trust.UNVERIFIED)
  return { dir, meta, trust }
}

t.test('threads that want the same segment at once check it once', async (t) => {
  const { dir, meta, trust } = await oneFile(t)
  flip(join(dir, 'f'))
  const reports: unknown[] = []
  const verifiers = [0, 1, 2].map(() => new SegmentVerifier(trust, dir, (message) => reports.push(message)))
  for (const result of await Promise.allSettled(verifiers.map((verifier) => verifier.ensure([meta, meta]))))
    t.match(result, { status: 'rejected', reason: { message: /"f"/ } })
  t.equal(reports.length, 1)
  t.equal(trustOf(trust, 3), Trust.CORRUPT)
})

t.test('a check that was given up is taken on by another thread', async (t) => {
  const { dir, meta, trust } = await oneFile(t)
  setTrust(trust, 3, Trust.CHECKING) // by a thread that has ended
  const alive = setInterval(() => {}, 1000) // waiting for another thread does not keep a process running
  t.teardown(() => clearInterval(alive))
  await new SegmentVerifier(trust, dir, () => t.fail('nothing is corrupt'), 50).ensure([meta])
  t.equal(trustOf(trust, 3), Trust.VERIFIED)
  setTrust(trust, 3, Trust.UNVERIFIED)
  const abort = AbortSignal.abort(new Error('cancelled'))
  await t.rejects(new SegmentVerifier(trust, dir, () => {}).ensure([meta], abort), /cancelled/)
  t.equal(trustOf(trust, 3), Trust.UNVERIFIED, 'a query that was cancelled leaves it to the next')
})

t.test("a log that is not the catalog's stops the start by file and offset", async (t) => {
  const [dir, other] = [tempDir(), tempDir()]
  const engine = await openEngine(dir)
  t.teardown(() => closeAndRemove(engine, dir, other))
  await writeFloat(engine, 'm', 'h', NOW, { v: 1 })
  await engine.flush()
  await writeFloat(engine, 'm', 'h', NOW + 1n, { v: 2 })
  await (await openEngine(other)).close()
  const [log] = readdirSync(join(dir, 'wal'))
  copyFileSync(join(dir, 'wal', log), join(other, 'wal', log))
  await t.rejects(refused(other), { code: 'DATABASE_ERROR', message: /cannot replay .*"000000000002.wal" at offset 8: .*table 0 is not defined; restore/ })
})
