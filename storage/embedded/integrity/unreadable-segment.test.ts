/** A segment that cannot be read while the server runs is named, with what to do; it is not the caller's error. */
import { mkdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { unreadableFile } from '../duckdb/unreadable-file.ts'
import { inside } from '../testing/catalog-faults.ts'
import type { Decoded } from '../testing/decoded-job.ts'
import { closeAndRemove, NOW, openEngine, rowsOf, tempDir, writeFloat } from '../testing/harness.ts'

const JOB = new URL('../testing/decoded-job.ts', import.meta.url)

const DAMAGES: Record<string, [damage: (path: string) => void, message: RegExp]> = {
  'is gone': [(path) => rmSync(path), /the file is not there/],
  'is a folder': [
    (path) => {
      rmSync(path)
      mkdirSync(path)
    },
    /the file is not there/,
  ],
  'is cut short': [(path) => truncateSync(path, 100), /the file is damaged/],
  'has other bytes at its end': [(path) => overwritten(path, (bytes) => bytes.fill(7, bytes.length - 100)), /the file is damaged/],
  'has other bytes in its middle': [(path) => overwritten(path, (bytes) => bytes.fill(7, 10, bytes.length - 400)), /the file is damaged/],
}

function overwritten(path: string, change: (bytes: Buffer) => void): void {
  const bytes = readFileSync(path)
  change(bytes)
  writeFileSync(path, bytes)
}

for (const [name, [damage, message]] of Object.entries(DAMAGES))
  t.test(`a segment that ${name}`, async (t) => {
    const dir = tempDir()
    const engine = await openEngine(dir, { query_threads: 1, segment_verification: 'off' })
    t.teardown(() => closeAndRemove(engine, dir))
    for (let i = 0; i < 300; i++) await writeFloat(engine, 'm', `h${i % 3}`, NOW + BigInt(i), { v: i, w: i / 3 })
    await engine.flush()
    const [{ file }] = inside(engine).segments.all()
    damage(join(dir, file))
    const refused = {
      code: 'DATABASE_ERROR',
      message: new RegExp(`^cannot read segment file "${file.replace(/\/[^/]*$/, '')}.*": ${message.source}; .*restore the file from a backup`),
    }
    const query = 'SELECT count(*)::DOUBLE, sum(v) FROM m'
    await t.rejects(engine.run<Decoded>(JOB, { namespace: '', query, parameters: [] }, { timeoutMs: 20_000 }).result, refused, 'SQL')
    await t.rejects(rowsOf(engine, 'm'), refused, 'a scan')
  })

t.test('a file of another user', async (t) => {
  const text = 'IO Error: Cannot open file "/data/segments/shard_473364/0000000001.parquet": Permission denied'
  t.match(unreadableFile(new Error(text)), {
    code: 'DATABASE_ERROR',
    message: /shard_473364\/0000000001.parquet": the user that the server runs as may not read it/,
  })
  t.equal(unreadableFile(new Error('Invalid Input Error: No magic bytes, says a caller')), undefined)
})

t.test('no file handle is left', async (t) => {
  const text = 'IO Error: Cannot open file "/data/segments/shard_473364/0000000001.parquet": Too many open files'
  t.match(unreadableFile(new Error(text)), { code: 'OVERLOADED', message: /as many files and connections open as it may; .*limit of open files/ })
})
