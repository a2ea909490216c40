import { FILE_PATH } from 'svcdb'
import { Type } from 'svcdb/lib/schema'

export const configSchema = Type.Object({
  directory: Type.String({
    ...FILE_PATH,
    default: '',
    description: 'Folder of dashboards beside those that svc brings; empty = the folder dashboards of database.data_dir',
  }),
  max_files: Type.Integer({
    default: 100,
    minimum: 0,
    maximum: 10_000,
    description: 'Dashboards taken from the folder, in the order of their names; 0 = none',
  }),
  max_file_bytes: Type.Integer({ default: 1_048_576, minimum: 1024, maximum: 67_108_864, description: 'Size of one dashboard of the folder' }),
  max_total_bytes: Type.Integer({
    default: 16_777_216,
    minimum: 1024,
    maximum: 1_073_741_824,
    description: 'Size of all dashboards of the folder, which are kept in memory',
  }),
})
