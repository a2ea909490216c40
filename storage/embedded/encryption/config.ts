/** The section [database.field_encryption]; apart, because engine threads have no use for schemas. */
import { Type } from 'svcdb/lib/schema'
import { DEFAULT_CACHE_BYTES } from './columns.ts'

export const encryptionSchema = Type.Object(
  {
    columns: Type.Record(Type.String(), Type.String(), {
      default: {},
      description: 'Field name → key id: the field is encrypted on disk in every measurement',
    }),
    keys: Type.Record(Type.String(), Type.String(), {
      default: {},
      description: 'Key id → environment variable with base64 of 32 bytes, read once at start; keys of older segments stay listed',
    }),
    cache_bytes: Type.Integer({
      default: DEFAULT_CACHE_BYTES,
      minimum: 65_536,
      maximum: 2 ** 36,
      description: 'Bytes of decrypted values that an engine thread keeps',
    }),
  },
  { description: 'Encryption of field columns' },
)
