/** What is known of segments, found by their numbers, however many were given before. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import t from 'tap'
import type { EmbeddedEngine } from '../engine.ts'
import type { SegmentTable } from '../segment/segment-table.ts'
import { closeAndRemove, NOW, openEngine, rowsOf, tempDir, writeFloat } from '../testing/harness.ts'
import { setTrust, Trust, trustOf, trustTable } from './trust.ts'

/** A database with a thousand tables that is flushed each ten seconds has given as many in a year. */
const MANY = 2 ** 32

t.test('a segment has an entry if it was there, or is found corrupt later', async (t) => {
  const table = trustTable([MANY, 7, 70_000_000, 0])
  for (const id of [0, 7, 8, 70_000_000, MANY, MANY + 1]) t.equal(trustOf(table, id), Trust.TRUSTED)
  for (const id of [0, 7, 70_000_000, MANY]) setTrust(table, id, Trust.UNVERIFIED)
  const seen = new Worker(
    `const { workerData: { ids, states }, parentPort } = require('node:worker_threads')
     parentPort.once('message', () => parentPort.postMessage([[...ids], [...states]]))`,
    { eval: true, workerData: table },
  )
  setTrust(table, MANY + 1, Trust.CORRUPT)
  setTrust(table, 5, Trust.CORRUPT)
  setTrust(table, 7, Trust.VERIFIED)
  t.same(
    [0, 5, 6, 7, 70_000_000, MANY, MANY + 1, MANY + 2].map((id) => trustOf(table, id)),
    [Trust.UNVERIFIED, Trust.CORRUPT, Trust.TRUSTED, Trust.VERIFIED, Trust.UNVERIFIED, Trust.UNVERIFIED, Trust.CORRUPT, Trust.TRUSTED],
  )
  seen.postMessage('look')
  const [ids, states] = await new Promise<[number[], number[]]>((resolve) => seen.once('message', resolve))
  t.same(ids, [0, 7, 70_000_000, MANY, MANY + 1, 5], 'other threads see what comes')
  t.same(states, [1, 3, 1, 1, 4, 4])
  await seen.terminate()
})

t.test('a database that has given very many numbers starts, and finds what is corrupt', async (t) => {
  const dir = tempDir()
  let engine = await openEngine(dir, { compaction_fan_in: 64 })
  const segments = (): SegmentTable => (engine as unknown as { opened: { segments: SegmentTable } }).opened.segments
  await writeFloat(engine, 'm', 'a', NOW, { v: 1, w: 2 })
  await engine.flush()
  segments().reserve(MANY)
  await writeFloat(engine, 'm', 'b', NOW, { v: 3, w: 4 })
  await engine.flush()
  await engine.close()
  engine = await openEngine(dir, { compaction_fan_in: 64 })
  const rows = [`a ${NOW} v=1 w=2`, `b ${NOW} v=3 w=4`]
  t.same(await rowsOf(engine, 'm'), rows)
  await writeFloat(engine, 'n', 'c', NOW, { v: 5, w: 6 })
  await engine.flush()
  const newest = segments()
    .all()
    .find(({ table }) => table !== segments().all()[0].table)
  t.ok(newest !== undefined && newest.id > MANY)
  await engine.close()
  const path = join(dir, (newest as { file: string }).file)
  const bytes = readFileSync(path)
  bytes[bytes.length >> 1] ^= 1
  writeFileSync(path, bytes)
  engine = await openEngine(dir, { compaction_fan_in: 64 })
  await t.rejects(rowsOf(engine as EmbeddedEngine, 'n'), { code: 'DATABASE_ERROR' })
  t.same(await rowsOf(engine, 'm'), rows)
  await closeAndRemove(engine, dir)
})
