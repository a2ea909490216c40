import { FILE_PATH } from 'svcdb'
import { type Static, Type } from 'svcdb/lib/schema'

export const configSchema = Type.Object({
  directory: Type.String({ ...FILE_PATH, default: '', description: 'Where the files go; empty = the folder exports of database.data_dir, if there is one' }),
  max_bytes: Type.Integer({
    default: 10_737_418_240,
    minimum: 0,
    maximum: Number.MAX_SAFE_INTEGER,
    description: 'Size of a file after which no row group is added; 0 = none',
  }),
  max_concurrent: Type.Integer({ default: 2, minimum: 1, maximum: 64, description: 'Exports under way at one time; one more is refused' }),
})

export type ExportConfig = Static<typeof configSchema>
