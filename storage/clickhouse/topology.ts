/** Shards and replicas, as ClickHouse says them of itself. */
import type { StorageTopology } from 'svcdb'
import type { ReadBlock } from './native/decode.ts'

/** What is asked, a statement at a time; ends with nothing, as `Client.blocks` wants it. */
interface Asker {
  blocks(statement: string): AsyncIterable<ReadBlock>
}

/** The servers of a cluster. Without one there is a single server, which knows itself as no cluster. */
export async function topologyOf(client: Asker, { prefix, cluster }: { prefix: string; cluster: string | undefined }): Promise<StorageTopology> {
  const tables = await replicatedTables(client, prefix)
  if (cluster === undefined) {
    const [[host = '']] = await texts(client, 'SELECT hostName(), toString(0)')
    return { name: '', shards: [{ number: 1, replicas: [{ host, addr: '', local: true, errors: 0, ...tables }] }] }
  }
  // The name is checked by the config's schema: letters, digits, "_" and "-".
  const rows = await texts(
    client,
    `SELECT toString(shard_num), host_name, concat(host_address, ':', toString(port)), toString(is_local), toString(errors_count) FROM system.clusters WHERE cluster = '${cluster}' ORDER BY shard_num, replica_num`,
  )
  const shards: StorageTopology['shards'] = []
  for (const [number, host, addr, local, errors] of rows) {
    if (shards.at(-1)?.number !== Number(number)) shards.push({ number: Number(number), replicas: [] })
    const own = local === '1' ? tables : { tables: 0, readonly_tables: 0, delay_secs: 0 }
    shards.at(-1)?.replicas.push({ host, addr, local: local === '1', errors: Number(errors), ...own })
  }
  return { name: cluster, shards }
}

/** Of the server that answers, in the databases of the prefix. */
async function replicatedTables(client: Asker, prefix: string): Promise<{ tables: number; readonly_tables: number; delay_secs: number }> {
  const [[tables, readonly, delay]] = await texts(
    client,
    `SELECT toString(count()), toString(countIf(is_readonly)), toString(max(absolute_delay)) FROM system.replicas WHERE database = '${prefix}' OR startsWith(database, '${prefix}_')`,
  )
  return { tables: Number(tables), readonly_tables: Number(readonly), delay_secs: Number(delay) }
}

async function texts(client: Asker, statement: string): Promise<string[][]> {
  const all: string[][] = []
  for await (const { rows, columns } of client.blocks(statement))
    for (let row = 0; row < rows; row++) all.push(columns.map(({ texts: column }) => Buffer.from(column?.[row] ?? []).toString()))
  return all
}
