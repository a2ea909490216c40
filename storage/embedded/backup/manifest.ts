/**
 * `backup_manifest.json`: what a backup consists of. Pure. Layout: docs/formats/backup.md.
 *
 * Invariant: the manifest is written last and read first, and its last member is a checksum of all bytes before it: a directory with a manifest that
 * decodes was complete when it was made, and every byte of it is accounted for.
 */
import { crc32 } from 'node:zlib'
import type { BackupManifest } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { SchemaReader, type Static, Type } from 'svcdb/lib/schema'

export const MANIFEST_FILE = 'backup_manifest.json'
/** The folder of a backup's directory in which another one is made that will replace it. */
export const UNFINISHED = 'unfinished'
export const MANIFEST_VERSION = 2

const count = (description: string) => Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, description })

const backupFile = Type.Object({
  path: Type.String({ description: "Relative to the backup's directory, with `/`" }),
  bytes: count('Of the file'),
  crc32: Type.String({ description: "Of the file's bytes, eight hexadecimal digits" }),
})

/** `backup_manifest.json`; some of its members are those of the wire. */
const storedManifest = Type.Object({
  version: count('Of the format'),
  created_at: count('Milliseconds since the Unix epoch'),
  wal_sequence: count('Of the newest write-ahead log record that the backup holds'),
  segments: count('In the backup'),
  file_count: count('Segments and all other files but the manifest'),
  total_bytes: count('Of these files'),
  files: Type.Array(backupFile),
})

export type BackupFile = Static<typeof backupFile>
export type StoredManifest = Static<typeof storedManifest>

const reader = new SchemaReader(storedManifest)

const TAIL = /^,\n {2}"checksum": "([0-9a-f]{8})"\n\}\n$/
const TAIL_BYTES = ',\n  "checksum": "00000000"\n}\n'.length
/** Nothing else is ever written: a path from a manifest can only lead into the backup. */
const SAFE_PATH = /^(catalog|segments)(\/[A-Za-z0-9_-][A-Za-z0-9_.-]*)+$/

export const hex = (crc: number): string => crc.toString(16).padStart(8, '0')

export function encodeManifest(manifest: StoredManifest): Uint8Array {
  const head = Buffer.from(JSON.stringify(manifest, null, 2).slice(0, -2))
  return Buffer.concat([head, Buffer.from(`,\n  "checksum": "${hex(crc32(head))}"\n}\n`)])
}

export function summary({ version, created_at, wal_sequence, segments, file_count, total_bytes }: StoredManifest): BackupManifest {
  return { version, createdAt: created_at, files: file_count, bytes: total_bytes, statistics: { wal_sequence, segments } }
}

/** @param shown how messages name the file. @throws INVALID_REQUEST for a manifest that is corrupt or of another version. */
export function decodeManifest(bytes: Uint8Array, shown: string): StoredManifest {
  const text = Buffer.from(bytes)
  const tail = TAIL.exec(text.subarray(-TAIL_BYTES).toString('latin1'))
  const head = text.subarray(0, Math.max(0, text.length - TAIL_BYTES))
  if (tail === null) {
    const version = versionOf(text)
    throw version === undefined || version === MANIFEST_VERSION
      ? corrupt(shown, `its checksum is missing (${text.length} bytes)`)
      : otherVersion(shown, version)
  }
  const found = hex(crc32(head))
  if (found !== tail[1]) throw corrupt(shown, `its checksum is ${found}, it says ${tail[1]} (${text.length} bytes)`)
  const version = versionOf(text)
  if (version !== MANIFEST_VERSION) throw version === undefined ? corrupt(shown, 'it has no version') : otherVersion(shown, version)
  const { checksum: _, ...manifest } = JSON.parse(text.toString()) as StoredManifest & { checksum: string }
  const [problem] = reader.read(manifest).problems
  if (problem !== undefined) throw corrupt(shown, `${problem.instancePath === '' ? 'it' : problem.instancePath} ${problem.message}`)
  const { files } = manifest
  const paths = new Set(files.map(({ path }) => path))
  for (const { path } of files) if (!SAFE_PATH.test(path)) throw corrupt(shown, `it names "${path}", which is no path of a backup`)
  const sum = files.reduce((total, { bytes: size }) => total + size, 0)
  if (paths.size !== files.length || files.length !== manifest.file_count || sum !== manifest.total_bytes)
    throw corrupt(shown, 'its counts do not fit its files')
  return manifest
}

function versionOf(text: Buffer): number | undefined {
  try {
    const { version } = JSON.parse(text.toString()) as { version?: unknown }
    return typeof version === 'number' ? version : undefined
  } catch {
    return undefined
  }
}

const corrupt = (shown: string, why: string): SvcError =>
  new SvcError('INVALID_REQUEST', `cannot read backup manifest "${shown}": it is corrupt, ${why}; use another backup`)

const otherVersion = (shown: string, version: number): SvcError =>
  new SvcError(
    'INVALID_REQUEST',
    `cannot read backup manifest "${shown}": its version is ${version}, this svc reads version ${MANIFEST_VERSION}; use the svc that wrote it`,
  )
