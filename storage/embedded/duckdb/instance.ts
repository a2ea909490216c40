/** Opens an engine thread's instance of DuckDB, with what its statements may name. Loaded by the thread's first statement. */
import { join } from 'node:path'
import { threadId } from 'node:worker_threads'
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api'
import type { EncryptedColumns } from '../encryption/columns.ts'
import { registerEncrypted } from '../encryption/encrypted-functions.ts'
import { paths } from '../paths.ts'
import { type MaskedRows, registerMasks } from '../read/mask-sql.ts'
import type { WorkerConfig } from '../threads/messages.ts'
import { CONNECTION_SETTINGS, logicalType, memoryLimit, type RowSource, rawConnection, registerSources, sqlText } from './duckdb.ts'

/** What statements name, by their tokens. */
export interface Named {
  sources: ReadonlyMap<string, RowSource>
  masks: ReadonlyMap<number, MaskedRows>
  encrypted: EncryptedColumns
}

/** Instances that this thread has opened. */
let opened = 0

/** @returns the instance, and a connection that is ready for a statement. */
export async function openInstance(
  config: WorkerConfig,
  dataDir: string,
  { sources, masks, encrypted }: Named,
): Promise<{ instance: DuckDBInstance; connection: DuckDBConnection }> {
  const instance = await DuckDBInstance.create(':memory:', {
    threads: String(config.duckdbThreads),
    memory_limit: memoryLimit(config),
    // Its own: instances name their files alike, and write to each other's.
    temp_directory: config.noSpill ? '' : join(config.tempDir, `spill-${threadId}-${opened++}`),
    ...(config.maxScratchBytes === undefined ? {} : { max_temp_directory_size: `${Math.max(1, Math.floor(config.maxScratchBytes / 1e6))}MB` }),
    // Without it, memory that a merge has used is kept until the next allocation: an idle node would keep it for good.
    allocator_background_threads: 'true',
    autoinstall_known_extensions: 'false',
    autoload_known_extensions: 'false',
    allow_community_extensions: 'false',
    allow_unsigned_extensions: 'false',
  })
  const connection = await instance.connect()
  const allowed = ['streaming_buffer_size', 'explain_output', ...(config.givesBack ? ['memory_limit'] : [])]
  const readable = [paths(dataDir).segments, config.tempDir, config.archiveDirectory ?? []].flat()
  for (const statement of [
    `SET TimeZone = 'UTC'`,
    `SET parquet_metadata_cache = true`,
    // It keeps parts of segments that are gone, up to the limit of the instance; the system's page cache has those that are read again.
    `SET enable_external_file_cache = false`,
    `SET preserve_insertion_order = true`,
    `CREATE SCHEMA svc_tags`,
    `SET allowed_directories = [${readable.map(sqlText).join(', ')}]`,
    `SET enable_external_access = false`,
    // They are a connection's own, and there are no defaults of them to set. Statements of clients cannot set anything: prepare refuses them.
    `SET allowed_configs = [${allowed.map(sqlText).join(', ')}]`,
    `SET lock_configuration = true`,
    ...CONNECTION_SETTINGS,
  ]) {
    await connection.run(statement)
  }
  registerSources(connection, sources)
  const raw = rawConnection(connection)
  registerEncrypted(raw, encrypted, logicalType)
  registerMasks(raw, masks)
  return { instance, connection }
}
