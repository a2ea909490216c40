/** The example of docs/formats/archive.md: another Parquet reader finds what it promises. */
import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet'
import { compressors } from 'hyparquet-compressors'
import t from 'tap'
import { realFileSystem } from '../../storage/common/log/file-system.ts'
import { OWNER_KEY, type OwnerMark, requireOwner } from '../../storage/embedded/archive/owner.ts'
import { claimsIn } from '../../storage/embedded/testing/archive-claims.ts'
import { folderStore } from '../../storage/embedded/testing/folder-store.ts'
import { closeAndRemove, openEngine, tempDir } from '../../storage/embedded/testing/harness.ts'
import { read } from '../support/tree.ts'

const page = read('docs/formats/archive.md')
const block = (info: string): string => new RegExp(`\`\`\`${info}\\n([^\`]*)\`\`\``).exec(page)?.[1] ?? ''

interface Point {
  tags: Record<string, string>
  time: string
  fields: Record<string, number>
}

t.test('the example of an owner', async (t) => {
  const [dir, folder] = [tempDir(), tempDir()]
  const mark = block('json owner').trim()
  const { database, token = '' } = JSON.parse(mark) as OwnerMark
  const parts = {
    store: folderStore(folder),
    fs: realFileSystem,
    scratch: join(dir, 'mark'),
    named: false,
    known: async () => [],
    takeOverFrom: '',
    ...claimsIn({ claim: {} }),
    newToken: () => token,
  }
  await requireOwner({ ...parts, identity: { id: database } })
  t.equal(readFileSync(join(folder, OWNER_KEY), 'utf8'), mark)
  await t.rejects(requireOwner({ ...parts, identity: { id: 'another' } }), { code: 'CONFLICT', message: new RegExp(database) })
  for (const one of [dir, folder]) rmSync(one, { recursive: true })
})

t.test('the example of archived objects', async (t) => {
  const [dir, folder] = [tempDir(), tempDir()]
  const engine = await openEngine(dir, { ooo_shard_tolerance: 100_000 })
  engine.archive.attach(folderStore(folder))
  const points = JSON.parse(block('json points')) as Point[]
  const newest: Point = { tags: { host: 'b' }, time: '1703000000000000000', fields: { temp: 0, ratio: 0 } }
  for (const part of [points, [newest]]) {
    const batch = engine.batch('')
    const ref = engine.resolver.measurement('', 'room')
    const table = batch.table(ref)
    for (const { tags, time, fields } of part) {
      const ns = BigInt(time)
      const row = table.addRow(engine.resolver.series(ref, Object.entries(tags).flat()), Number(BigInt.asIntN(32, ns)), Number(ns >> 32n), 0)
      for (const [name, value] of Object.entries(fields)) table.column(name, 'float64').setF64(row, value)
    }
    t.equal((await engine.write(batch)).rejected, 0)
    await engine.flush()
  }
  t.match(await engine.archive.run({ coldAfterSecs: 86_400, maxObjects: 8 }), { objects: 2, rows: 3, failure: undefined })
  const keys = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.parquet'))
    .sort()
  t.equal(keys.map((key) => key.replace(/\d{10}-[0-9a-f]{8}/, '<id>-<crc>')).join('\n'), block('text key').trim())
  const file = await asyncBufferFromFile(join(folder, keys[0]))
  const rows = (await parquetReadObjects({ file, compressors, parsers: { timestampFromNanoseconds: (ns: bigint) => String(ns) } as never })) as object[]
  t.same(
    rows.map((row) => JSON.parse(JSON.stringify(row, (_, value) => (value === undefined ? null : value)))),
    JSON.parse(block('json rows')),
  )
  await closeAndRemove(engine, dir, folder)
})
