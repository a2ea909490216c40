/** An audit log whose file others move away, begin, cut or write to. */
import { appendFileSync, renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import t from 'tap'
import { check, entriesOf, entry, FaultyFiles, linesOf, makeAuditLog, metadataOf, outcome, pathIn, stopAtEnd } from './testing.ts'

t.test('a file that is moved away or deleted: the chain goes on in a new one', async (t) => {
  const path = pathIn(t)
  const auditLog = await stopAtEnd(t, makeAuditLog(path))
  await auditLog.record(entry('a'))
  renameSync(path, `${path}.1`)
  await auditLog.record(entry('b'))
  const [note, b] = entriesOf(path)
  t.match([metadataOf(note), b.resource, b.id], [{ event: 'file_replaced', last_id: '1' }, 'b', 3n])
  t.equal(note.prevHash, entriesOf(`${path}.1`)[0].hash)
  rmSync(dirname(path), { recursive: true })
  await auditLog.record(entry('c'))
  t.match(
    entriesOf(path).map(({ id }) => id),
    [4n, 5n],
  )
  await auditLog.stop()
  const again = await stopAtEnd(t, makeAuditLog(path))
  await again.record(entry('d'))
  t.match(
    entriesOf(path).map(({ id }) => id),
    [4n, 5n, 6n],
    'a file that is not the first of its chain is no corruption',
  )
})

t.test('that a file was moved away is told of when it can be, by an entry of the new one', async (t) => {
  const path = pathIn(t)
  const files = new FaultyFiles()
  const auditLog = await stopAtEnd(t, makeAuditLog(path, { files }))
  await auditLog.record(entry('a'))
  renameSync(path, `${path}.1`)
  files.room = 0
  t.equal(await outcome(auditLog.record(entry('b'))), 'STORAGE_FULL')
  files.room = Number.POSITIVE_INFINITY
  await auditLog.record(entry('c'))
  t.match(
    entriesOf(path).map((kept) => metadataOf(kept).event ?? kept.resource),
    ['file_replaced', 'c'],
  )
})

t.test('a file that others begin in its place is gone on with, on a line of its own', async (t) => {
  const path = pathIn(t)
  const auditLog = await stopAtEnd(t, makeAuditLog(path))
  await auditLog.record(entry('a'))
  renameSync(path, `${path}.1`)
  writeFileSync(path, 'half a line of somebody else')
  await auditLog.record(entry('b'))
  const [half, ...ours] = linesOf(path)
  t.equal(half, 'half a line of somebody else')
  t.same(
    ours.map((text) => JSON.parse(text).resource),
    [path, 'b'],
  )
})

t.test('what is not synced yet of a file that is moved away, is when the next one is begun', async (t) => {
  const path = pathIn(t)
  const files = new FaultyFiles()
  const auditLog = await stopAtEnd(t, makeAuditLog(path, { files, config: { sync_each: false, sync_interval_ms: 3_600_000 } }))
  await auditLog.record(entry('a'))
  t.equal(files.syncs, 0)
  renameSync(path, `${path}.1`)
  await auditLog.record(entry('b'))
  t.equal(files.syncs, 1)
  t.equal(linesOf(`${path}.1`).length, 1)
})

t.test('a file that is cut or written by others: the break shows, and is told of', async (t) => {
  const path = pathIn(t)
  const lines: string[] = []
  const auditLog = await stopAtEnd(t, makeAuditLog(path, { log: (line) => lines.push(line) }))
  for (const resource of ['a', 'b', 'c']) await auditLog.record(entry(resource))
  const [first] = linesOf(path)
  truncateSync(path, first.length + 1)
  await auditLog.record(entry('d'))
  t.match(
    entriesOf(path).map(({ id }) => id),
    [1n, 4n, 5n],
  )
  t.match(metadataOf(entriesOf(path)[1]), { event: 'file_changed', last_id: '3' })
  t.match((await check(path)).broken, { line: 2, problem: /id is 4, 2 comes next: entries are missing/ })
  appendFileSync(path, 'half a line of somebody else')
  await auditLog.record(entry('e'))
  t.match((await check(path)).broken, { line: 2 })
  t.equal(linesOf(path).length, 6, 'ours begin on lines of their own')
  t.ok(lines.some((line) => line.includes('somebody else wrote to the audit log')))
  truncateSync(path, 0)
  await auditLog.record(entry('f'))
  t.match(
    entriesOf(path).map(({ id }) => id),
    [8n, 9n],
  )
})
