/**
 * The storage policy of the tables of points, and when their rows move to its cold volume. ClickHouse moves them; here the tables are told so, those that exist
 * already and those that other nodes make. All nodes of a prefix have to say the same.
 */
import { SvcError } from 'svcdb/lib/errors'
import type { Client } from './client.ts'
import type { StoragePolicy } from './config.ts'
import { databaseOf, type Place, setColdVolume, setPolicy } from './statements.ts'
import { texts } from './topology.ts'

const TABLES = "match(name, '^(narrow|m_[0-9]+)(_local)?$') AND engine LIKE '%MergeTree'"

export class Policies {
  private readonly client: Client
  private readonly place: Place
  private readonly wanted: StoragePolicy | undefined

  /** @param wanted undefined: as the server has it. */
  constructor(client: Client, place: Place, wanted: StoragePolicy | undefined) {
    this.client = client
    this.place = place
    this.wanted = wanted
  }

  /** @throws CONFIG_ERROR for a policy or a volume that the server does not have. */
  async check(): Promise<void> {
    if (this.wanted === undefined) return
    const { policy, cold } = this.wanted
    const volumes = await texts(this.client, `SELECT volume_name FROM system.storage_policies WHERE policy_name = '${policy}'`)
    if (volumes.length === 0)
      throw new SvcError('CONFIG_ERROR', `cannot use clickhouse.storage_policy "${policy}": ClickHouse has none of that name; see system.storage_policies`)
    if (cold === undefined || volumes.some(([name]) => name === cold.volume)) return
    const found = volumes.map(([name]) => `"${name}"`).join(', ')
    throw new SvcError('CONFIG_ERROR', `cannot use clickhouse.cold_volume "${cold.volume}": the policy "${policy}" has ${found}`)
  }

  /** Tells the tables of a namespace that have not been told. */
  async pass(namespace: string): Promise<void> {
    const { client, place, wanted } = this
    const select = `SELECT name, storage_policy, engine_full FROM system.tables WHERE database = '${databaseOf(place, namespace)}' AND ${TABLES}`
    for (const [table, policy, engine] of await texts(client, select)) {
      if (wanted !== undefined && policy !== wanted.policy) await client.command(setPolicy(place, namespace, table, wanted.policy))
      const told = /toIntervalSecond\((\d+)\) TO VOLUME '([^']*)'/.exec(engine)
      const { cold } = wanted ?? {}
      if (told?.[1] === cold?.afterSecs.toString() && told?.[2] === cold?.volume) continue
      await client.command(setColdVolume(place, namespace, table, cold))
    }
  }
}
