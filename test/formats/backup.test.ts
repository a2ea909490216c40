/** The worked example of docs/formats/backup.md is what the code reads and writes. */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import { realDisk } from '../../storage/embedded/backup/disk.ts'
import { decodeManifest, encodeManifest } from '../../storage/embedded/backup/manifest.ts'
import { verifyBackup } from '../../storage/embedded/backup/verify.ts'
import { tempDir } from '../../storage/embedded/testing/harness.ts'

const page = readFileSync(new URL('../../docs/formats/backup.md', import.meta.url), 'utf8')
const example = /```json manifest\n([^`]*)```/.exec(page)?.[1] ?? ''

t.test('the example decodes, and encodes to the same bytes', async (t) => {
  const manifest = decodeManifest(Buffer.from(example), 'the example')
  t.match(manifest, { version: 2, created_at: 1_700_000_000_000, wal_sequence: 42, segments: 1, file_count: 2, total_bytes: 14 })
  t.equal(Buffer.from(encodeManifest(manifest)).toString(), example)
})

t.test('the directory that the example describes is a backup, and with another segment it is not', async (t) => {
  const dir = tempDir()
  t.teardown(() => rmSync(dir, { recursive: true }))
  const segment = 'segments/shard_472222/0000000001.parquet'
  const put = (path: string, text: string) => {
    mkdirSync(join(dir, dirname(path)), { recursive: true })
    writeFileSync(join(dir, path), text)
  }
  put('backup_manifest.json', example)
  put('catalog/data.mdb', 'catalog 123')
  put(segment, 'abc')
  t.equal((await verifyBackup(realDisk, dir, () => {})).files.length, 2)
  put(segment, 'abd')
  await t.rejects(
    verifyBackup(realDisk, dir, () => {}),
    { code: 'INVALID_REQUEST', message: new RegExp(segment) },
  )
})
