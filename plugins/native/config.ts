import { type Static, Type } from 'svcdb/lib/schema'

export const configSchema = Type.Object({
  max_fields_per_point: Type.Integer({ default: 1024, minimum: 1, maximum: 65_536, description: 'Fields of one point; a write with more is refused' }),
  max_deletes_per_batch: Type.Integer({ default: 1000, minimum: 1, maximum: 1_000_000, description: 'Deletes in one body of /api/v1/delete_batch' }),
  max_query_memory_bytes: Type.Integer({
    default: 0,
    minimum: 0,
    maximum: 1_099_511_627_776,
    description: 'Bytes of rows that one query holds to put them in order, about; above: 400; 0 = as much as all of a query thread, server.max_held_memory',
  }),
  series_cache_bytes: Type.Integer({
    default: 67_108_864,
    minimum: 65_536,
    maximum: 4_294_967_296,
    description: 'Memory for tag sets, as written, that are recognised without being parsed again, for each namespace; emptied when full',
  }),
  max_cached_namespaces: Type.Integer({ default: 16, minimum: 1, maximum: 10_000, description: 'Namespaces that have a series cache at one time' }),
})

export type NativeConfig = Static<typeof configSchema>
