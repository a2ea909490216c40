/** How an engine that is a system of its own is spread over machines, as it says itself. */
export interface StorageTopology {
  /** Of the cluster. */
  name: string
  shards: { number: number; replicas: StorageReplica[] }[]
}

/** One replica of a shard, as the server that was asked sees it. */
export interface StorageReplica {
  host: string
  addr: string
  /** Whether it is the one that was asked. */
  local: boolean
  /** Of its peers with it, of late. */
  errors: number
  /** Replicated tables, as the replica itself says; these three are absent where it did not answer. */
  tables?: number
  readonly_tables?: number
  /** Of the table that is most behind. */
  delay_secs?: number
}
