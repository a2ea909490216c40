/** Shards and replicas, as ClickHouse says them of itself. */
import type { StorageTopology } from 'svcdb'
import type { ReadBlock } from './native/decode.ts'
import { WITHOUT_THE_AWAY } from './settings.ts'

/** What is asked, a statement at a time; ends with nothing, as `Client.blocks` wants it. */
interface Asker {
  blocks(statement: string, options: { settings: readonly string[]; signal?: AbortSignal }): AsyncIterable<ReadBlock>
}

/** The servers of a cluster. Without one there is a single server, which knows itself as no cluster. */
export async function topologyOf(client: Asker, { prefix, cluster }: { prefix: string; cluster: string | undefined }): Promise<StorageTopology> {
  const replicas = await replicatedTables(client, prefix, cluster)
  if (cluster === undefined) {
    const [tables] = replicas.values()
    const [[host = '']] = await texts(client, 'SELECT hostName(), toString(0)')
    return { name: '', shards: [{ number: 1, replicas: [{ host, addr: '', local: true, errors: 0, ...tables }] }] }
  }
  // The name is checked by the config's schema: letters, digits, "_" and "-".
  const rows = await texts(
    client,
    `SELECT toString(shard_num), host_name, concat(host_address, ':', toString(port)), toString(is_local), toString(errors_count) FROM system.clusters WHERE cluster = '${cluster}' ORDER BY shard_num, replica_num`,
  )
  const shards: StorageTopology['shards'] = []
  // As clusterAllReplicas counts them: each address once, in their order.
  const places = new Map<string, number>()
  for (const [number, host, addr, local, errors] of rows) {
    if (shards.at(-1)?.number !== Number(number)) shards.push({ number: Number(number), replicas: [] })
    const place = places.get(addr) ?? places.size + 1
    places.set(addr, place)
    shards.at(-1)?.replicas.push({ host, addr, local: local === '1', errors: Number(errors), ...replicas.get(place) })
  }
  return { name: cluster, shards }
}

interface Replicated {
  tables: number
  readonly_tables: number
  delay_secs: number
}

/** Of the servers that answer, in the databases of the prefix, by their place in the cluster; of one without a cluster by 1. */
async function replicatedTables(client: Asker, prefix: string, cluster: string | undefined): Promise<Map<number, Replicated>> {
  const [place, from] =
    cluster === undefined ? ['1', (table: string) => table] : ['_shard_num', (table: string) => `clusterAllReplicas('${cluster}', ${table})`]
  const found = new Map<number, Replicated>()
  for (const [number] of await texts(client, `SELECT toString(${place}) FROM ${from('system.one')}`))
    found.set(Number(number), { tables: 0, readonly_tables: 0, delay_secs: 0 })
  const counts = 'toString(count()), toString(countIf(is_readonly)), toString(max(absolute_delay))'
  const where = `database = '${prefix}' OR startsWith(database, '${prefix}_')`
  const select = `SELECT toString(${place}) AS place, ${counts} FROM ${from('system.replicas')} WHERE ${where} GROUP BY place`
  for (const [number, tables, readonly, delay] of await texts(client, select))
    found.set(Number(number), { tables: Number(tables), readonly_tables: Number(readonly), delay_secs: Number(delay) })
  return found
}

/** The rows of an answer of texts. */
export async function texts(client: Asker, statement: string, signal?: AbortSignal): Promise<string[][]> {
  const all: string[][] = []
  const options = { settings: [WITHOUT_THE_AWAY], ...(signal === undefined ? {} : { signal }) }
  for await (const { rows, columns } of client.blocks(statement, options))
    for (let row = 0; row < rows; row++) all.push(columns.map(({ texts: column }) => Buffer.from(column?.[row] ?? []).toString()))
  return all
}
