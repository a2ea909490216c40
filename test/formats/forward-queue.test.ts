/** The worked example of docs/formats/forward-queue.md is what the code writes and reads. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { WriteBatch } from 'svcdb/lib/columns'
import t from 'tap'
import { limitsOf } from '../../storage/common/limits.ts'
import { realFileSystem } from '../../storage/common/log/file-system.ts'
import { realTimers } from '../../storage/common/timers.ts'
import { notePlaces, savedPlaces } from '../../storage/forward/position-file.ts'
import { Queue } from '../../storage/forward/queue.ts'
import { SeriesNames } from '../../storage/forward/series.ts'
import { fences } from '../support/markdown.ts'
import { read } from '../support/tree.ts'

const example = Buffer.from(fences(read('docs/formats/forward-queue.md'))[0].text.replace(/\s/g, ''), 'hex')

t.test('the example', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'svc-queue-'))
  t.teardown(() => rmSync(dir, { recursive: true }))
  mkdirSync(join(dir, 'queue'))
  const nothing = (): void => {}
  const queue = new Queue({
    dir: join(dir, 'queue'),
    damagedDir: join(dir, 'damaged'),
    policy: { kind: 'per_batch' },
    bounds: { maxBytes: 1 << 20, maxAgeMs: 0, whenFull: 'refuse', fileBytes: 65_536 },
    fs: realFileSystem,
    timers: realTimers,
    now: () => 1_700_000_000_000,
    monotonic: () => 0,
    events: { dropped: nothing, damaged: nothing, warning: nothing, fsyncs: nothing, written: nothing },
  })
  await queue.open()
  const names = new SeriesNames(limitsOf({}), 100, 1 << 20)
  const batch = new WriteBatch(names)
  names.begun(batch)
  const ref = names.measurement('', 'cpu')
  const table = batch.table(ref)
  const row = table.addRow(names.series(ref, ['host', 'a']), 1000, 0, 0)
  table.column('v', 'float64').setF64(row, 1.5)
  table.column('n', 'int64').setPair(row, 2, 0)
  await queue.append(batch, { points: 1, takenMs: 1_700_000_000_000, namespace: '', backfill: false, nonFinite: false }, (series) => names.of(series).key)
  const [name] = readdirSync(join(dir, 'queue'))
  t.equal(name, '000000000001.queue')
  t.equal(readFileSync(join(dir, 'queue', name)).toString('hex'), example.toString('hex'))
  const { records } = await queue.read(queue.attach('one', undefined), 1000)
  t.match(records, [{ record: { sequence: 0, before: 0, points: 1, takenMs: 1_700_000_000_000, tables: [{ rows: 1, names: ['v', 'n'] }] } }])
  t.equal(Buffer.from(records[0].record.keys[0]).toString('hex'), '0a0363707512090a04686f7374120161')
  await queue.close()
})

t.test('the example of places', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'svc-places-'))
  t.teardown(() => rmSync(dir, { recursive: true }))
  const path = join(dir, 'upstream.json')
  const example = fences(read('docs/formats/forward-queue.md'))[1].text.trim()
  writeFileSync(path, example)
  const saved = await savedPlaces(path)
  const place = { file: 1, offset: 8, sequence: 0, points: 0 }
  t.same(saved?.at, { file: 2, offset: 908, sequence: 10, points: 100 })
  t.same(saved?.parked, [{ namespace: 'red', place }])
  t.same(
    [...(saved?.passed ?? [])],
    [1, 2].map((file) => [file, { records: 1, points: 10 }]),
  )
  if (saved !== undefined) await notePlaces(path, saved, place)
  t.equal(readFileSync(path, 'utf8').trim(), example)
  writeFileSync(path, '{"version":1,"file":1,"offset":20,"sequence":3,"points":7}')
  t.same(await savedPlaces(path), { at: { file: 1, offset: 20, sequence: 3, points: 7 }, parked: [], passed: new Map() }, 'as it is without parked namespaces')
  const unsealed = example.replace(/,"checksum":"[0-9a-f]{8}"/, '')
  for (const damaged of ['{"version":1,"file":1', '{"version":2}', unsealed.replace('"offset":908', '"offset":-1'), unsealed.replace('[2,1,10]', '[2,1]')]) {
    writeFileSync(path, damaged)
    t.equal(await savedPlaces(path), undefined, damaged)
  }
  const right = JSON.stringify(saved)
  let refused = 0
  for (let bit = 0; bit < example.length * 8; bit++) {
    const bytes = Buffer.from(example)
    bytes[bit >> 3] ^= 1 << (bit & 7)
    writeFileSync(path, bytes)
    const found = await savedPlaces(path)
    if (found === undefined) refused++
    else if (JSON.stringify(found) !== right) t.fail(`bit ${bit} makes other places: ${bytes}`)
  }
  t.ok(refused > example.length * 4, `${refused} of ${example.length * 8} flipped bits are noticed, and the others change no place`)
})
