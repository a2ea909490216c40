import { crc32 } from 'node:zlib'
import t from 'tap'
import { decodeManifest, encodeManifest, hex, type StoredManifest } from './manifest.ts'

const files = [
  { path: 'catalog/data.mdb', bytes: 10, crc32: '00000001' },
  { path: 'segments/shard_-1/0000000001.parquet', bytes: 20, crc32: 'ffffffff' },
]
const manifest: StoredManifest = { version: 2, created_at: 1_700_000_000_000, wal_sequence: 3, segments: 1, file_count: 2, total_bytes: 30, files }
const decode = (bytes: Uint8Array) => decodeManifest(bytes, 'b/backup_manifest.json')
/** With a checksum that fits whatever it says. */
const encode = (changes: object) => encodeManifest({ ...manifest, ...changes })

t.test('what was encoded is decoded', async (t) => {
  t.same(decode(encodeManifest(manifest)), manifest)
  t.same(JSON.parse(Buffer.from(encodeManifest(manifest)).toString()).files, files, 'it is JSON')
})

t.test('every flipped bit and every truncation is noticed', async (t) => {
  const bytes = encodeManifest(manifest)
  const undetected: string[] = []
  const attempt = (what: string, corrupted: Uint8Array) => {
    try {
      decode(corrupted)
      undetected.push(what)
    } catch (error) {
      if ((error as { code?: string }).code !== 'INVALID_REQUEST') undetected.push(`${what}: ${error}`)
    }
  }
  for (let bit = 0; bit < bytes.length * 8; bit++) {
    const corrupted = Buffer.from(bytes)
    corrupted[bit >> 3] ^= 1 << (bit & 7)
    attempt(`bit ${bit}`, corrupted)
  }
  for (let length = 0; length < bytes.length; length++) attempt(`${length} bytes`, bytes.subarray(0, length))
  attempt('one byte more', Buffer.concat([bytes, Buffer.from('\n')]))
  t.same(undetected, [])
})

t.test('another version is refused naming both', async (t) => {
  t.throws(() => decode(encode({ version: 3 })), { code: 'INVALID_REQUEST', message: /version is 3, this svc reads version 2/ })
  t.throws(
    () => decode(Buffer.from('{"version": 9, "sealed": true}')),
    { message: /version is 9, this svc reads version 2/ },
    'also where the rest looks otherwise',
  )
})

t.test('a path cannot lead out of the backup', async (t) => {
  for (const path of ['../x', '/etc/passwd', 'segments/../../x', 'segments/./x', 'catalog', 'wal/1', 'segments//x', 'segments/.x', 'segments/a\\b'])
    t.throws(() => decode(encode({ files: [files[0], { ...files[1], path }] })), { message: /no path of a backup/ }, path)
})

t.test('counts that do not fit the files are refused', async (t) => {
  for (const changes of [{ file_count: 3 }, { total_bytes: 31 }, { files: [files[0], { ...files[0], bytes: 20 }] }])
    t.throws(() => decode(encode(changes)), { message: /counts do not fit/ })
})

t.test('a manifest with a checksum that fits and members that are missing or of another type is refused naming one', async (t) => {
  const name = 'files'
  const { [name]: _, ...rest } = manifest
  t.throws(() => decode(encodeManifest(rest as StoredManifest)), { code: 'INVALID_REQUEST', message: /it is corrupt, it must have required properties files/ })
  const wrong = { files: [{}, 5, null, 'x'].map((file) => [file]), total_bytes: ['30', null], created_at: ['now', -1], segments: [1.5], wal_sequence: [null] }
  for (const [member, values] of Object.entries(wrong))
    for (const value of values)
      t.throws(() => decode(encode({ [member]: value })), { code: 'INVALID_REQUEST', message: new RegExp(member) }, `${member}: ${JSON.stringify(value)}`)
  t.throws(() => decode(encode({ files: [files[0], { ...files[1], bytes: '20' }] })), { code: 'INVALID_REQUEST', message: /files\/1\/bytes must be integer/ })
})

t.test('the checksum is of all bytes before its line', async (t) => {
  const text = Buffer.from(encodeManifest(manifest)).toString()
  const at = text.indexOf(',\n  "checksum"')
  t.equal(text.slice(at), `,\n  "checksum": "${hex(crc32(text.slice(0, at)))}"\n}\n`)
})
