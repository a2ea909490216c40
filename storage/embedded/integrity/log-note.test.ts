/** The log's files as a whole: one that is gone, empty, cut between two records, in another's place, or too many. */
import { copyFileSync, readdirSync, readFileSync, renameSync, rmSync, truncateSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { testContext } from '../../conformance/context.ts'
import { EmbeddedEngine } from '../engine.ts'
import { closeAndRemove, crashCopy, NOW, NOW_MS, openEngine, rowsOf, tempDir, writeFloat } from '../testing/harness.ts'

const CONFIG = { wal_max_file_size: 65_536, wal_max_unflushed: 1000 }
const HEADER = 8
const FRAME = 16

/** A killed database whose rows are all in its log of several files, each record with one row. */
async function killed(): Promise<{ dir: string; files: string[]; rows: string[] }> {
  const dir = tempDir()
  const engine = await openEngine(dir, CONFIG)
  for (let i = 0; i < 1500; i += 100) {
    await Promise.all(
      Array.from({ length: 100 }, (_, j) => {
        const fields = Object.fromEntries(Array.from({ length: 10 }, (_, f) => [`field_${f}`, (i + j) / 3]))
        return writeFloat(engine, 'm', 'a', NOW + BigInt(i + j), fields)
      }),
    )
  }
  const rows = await rowsOf(engine, 'm')
  const copy = crashCopy(dir)
  await closeAndRemove(engine, dir)
  return { dir: copy, files: readdirSync(join(copy, 'wal')).sort(), rows }
}

function frames(bytes: Buffer): number[] {
  const found: number[] = []
  for (let at = HEADER; at < bytes.length; at += FRAME + bytes.readUInt32LE(at)) found.push(at)
  return found
}

async function refused(dir: string): Promise<void> {
  const engine = new EmbeddedEngine(testContext({ data_dir: dir, ...CONFIG }, () => NOW_MS))
  try {
    await engine.open()
  } finally {
    await engine.close()
  }
}

t.test('files that are gone, cut or swapped stop the start by name', async (t) => {
  const { dir, files, rows } = await killed()
  t.teardown(() => rmSync(dir, { recursive: true }))
  t.ok(files.length >= 3, `${files.length} files`)
  const [first, second] = files
  const newest = files.at(-1) as string
  const path = (file: string): string => join(dir, 'wal', file)
  const saved = new Map(files.map((file) => [file, readFileSync(path(file))]))
  const middle = (file: string): number => frames(saved.get(file) as Buffer)[3]
  const cases: [string, string, () => unknown][] = [
    ['the newest is gone', newest, () => unlinkSync(path(newest))],
    ['the newest is empty', newest, () => truncateSync(path(newest), 0)],
    ['the first is gone', first, () => unlinkSync(path(first))],
    ['one in between is gone', second, () => unlinkSync(path(second))],
    ['all are gone', first, () => files.map((file) => unlinkSync(path(file)))],
    ['an earlier one is cut between two records', first, () => truncateSync(path(first), middle(first))],
    ['an earlier one has no records', second, () => truncateSync(path(second), HEADER)],
    ['an earlier one goes on', first, () => writeFileSync(path(first), Buffer.concat([saved.get(first) as Buffer, Buffer.alloc(20)]))],
    ['one is there twice', second, () => copyFileSync(path(first), path(second))],
    ['a file follows the newest', '000000000099.wal', () => copyFileSync(path(first), path('000000000099.wal'))],
    [
      'two are swapped',
      first,
      () => {
        renameSync(path(first), path('x'))
        renameSync(path(second), path(first))
        renameSync(path('x'), path(second))
      },
    ],
  ]
  for (const [what, named, corruption] of cases) {
    corruption()
    await t.rejects(refused(dir), { code: 'DATABASE_ERROR', message: new RegExp(`${named}" at offset`) }, what)
    for (const file of readdirSync(join(dir, 'wal'))) if (!saved.has(file)) unlinkSync(path(file))
    for (const [file, bytes] of saved) writeFileSync(path(file), bytes)
  }
  writeFileSync(path('notes.txt'), 'not a log file')
  const engine = await openEngine(dir, CONFIG)
  t.same(await rowsOf(engine, 'm'), rows, 'put back, nothing is missing')
  await engine.close()
  t.same(readdirSync(join(dir, 'wal')), ['notes.txt'], 'files that are not of the log are left alone')
})

t.test('the end of the newest file may be cut anywhere: the records before it are there', async (t) => {
  const { dir, files, rows } = await killed()
  const newest = join(dir, 'wal', files.at(-1) as string)
  const bytes = readFileSync(newest)
  const [, second, third] = frames(bytes)
  const before = rows.length - frames(bytes).length
  for (const [size, kept] of [
    [third, 2],
    [third - 1, 1],
    [second + FRAME, 1],
    [second + 3, 1],
    [second, 1],
    [HEADER + 1, 0],
    [HEADER, 0],
  ] as const) {
    writeFileSync(newest, bytes.subarray(0, size))
    const copy = crashCopy(dir)
    const engine = await openEngine(copy, CONFIG)
    t.same(await rowsOf(engine, 'm'), rows.slice(0, before + kept), `cut to ${size}`)
    // And again, with a file begun behind the cut one.
    await writeFloat(engine, 'm', 'a', NOW + 5000n, { field_0: 1 })
    const again = crashCopy(copy)
    await closeAndRemove(engine, copy)
    const second = await openEngine(again, CONFIG)
    t.equal((await rowsOf(second, 'm')).length, before + kept + 1)
    await closeAndRemove(second, again)
  }
  rmSync(dir, { recursive: true })
})

t.test('a missing or emptied catalog does not take a healthy log with it', async (t) => {
  const { dir, files, rows } = await killed()
  const data = join(dir, 'catalog', 'data.mdb')
  const bytes = readFileSync(data)
  for (const corruption of [
    () => unlinkSync(data),
    () => truncateSync(data, 0),
    () => writeFileSync(data, Buffer.alloc(bytes.length)),
    () => rmSync(join(dir, 'catalog'), { recursive: true }),
  ]) {
    corruption()
    await t.rejects(refused(dir), { code: 'DATABASE_ERROR', message: /catalog\/data\.mdb/ })
    t.same(readdirSync(join(dir, 'wal')).sort(), files)
    writeFileSync(data, bytes)
  }
  const engine = await openEngine(dir, CONFIG)
  t.same(await rowsOf(engine, 'm'), rows)
  await closeAndRemove(engine, dir)
})
