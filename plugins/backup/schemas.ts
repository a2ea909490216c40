/** Shapes of the routes, for validation and for the OpenAPI description. */
import { type Static, Type } from 'svcdb/lib/schema'

const directory = (description: string) => Type.String({ minLength: 1, maxLength: 4096, description, examples: ['monday'] })
const closed = { additionalProperties: false }

export const backupBody = Type.Object({ target_dir: directory('Where the backup goes, inside server.backup_root') }, closed)
export const verifyBody = Type.Object({ backup_dir: directory('The backup, inside server.backup_root') }, closed)
export const restoreBody = Type.Object(
  {
    backup_dir: directory('The backup, inside server.backup_root'),
    target_dir: directory(
      'The data directory to make, inside server.backup_root; it must not exist. Where the engine keeps points elsewhere, its last part names what is made',
    ),
  },
  closed,
)

export const manifest = Type.Object({
  version: Type.Integer({ description: 'Of the format of the backup' }),
  created_at: Type.Integer({ description: 'Milliseconds since the Unix epoch' }),
  wal_sequence: Type.Optional(Type.Integer({ description: 'Newest record of the write-ahead log that was in effect when the backup began' })),
  segments: Type.Optional(Type.Integer()),
  file_count: Type.Integer({ description: 'All files but the manifest' }),
  total_bytes: Type.Integer({ description: 'Of these files' }),
})

export type BackupAnswer = Static<typeof manifest>
