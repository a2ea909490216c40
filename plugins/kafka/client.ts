/** What a connector needs of a client library for Kafka; it does not know which one it is. */

export interface KafkaRecord {
  offset: string
  /** Milliseconds since the Unix epoch. */
  timestamp: string
  key: Buffer | null
  /** null = a tombstone. */
  value: Buffer | null
  headers: Record<string, Buffer | string | (Buffer | string)[] | undefined>
  /** It stands for records that cannot be read, up to its offset: how many bytes they have, and why. Its value is null. */
  unread?: { bytes: number; why: string } | undefined
}

/** Records of one partition, in the order of their offsets, as one fetch brought them. */
export interface Fetched {
  topic: string
  partition: number
  /** Of the membership in which they were fetched. */
  generation: number
  /** None where all that came are markers of transactions, or records of aborted ones. */
  records: readonly KafkaRecord[]
  /** The offset behind all that came, those that are no records included. */
  behind: number
  /** The offset behind the newest record that the broker has. */
  end: number
  /** The partition is about to be taken away, or the client ends: what is settled soon counts, the rest is left. */
  ending: AbortSignal
}

export interface PartitionOffset {
  topic: string
  partition: number
  offset: number
}

/** Where the group is in a partition of this member, and where the partition ends. */
export interface PartitionLag extends PartitionOffset {
  end: number
}

export interface ConsumerEvents {
  /** Settles records. @returns the offset up to which all are settled; those from there on are fetched again. Never rejects. */
  fetched(fetched: Fetched): Promise<number>
  /** A member of the group, with these partitions; those of generations before are not its own any more. */
  joined(generation: number, owned: readonly PartitionOffset[]): void
  /** No member any more; it is tried again. `failed`: the broker has refused, or what is configured cannot be used. */
  lost(error: Error, state: 'reconnecting' | 'failed'): void
  /** The broker no longer has the next record of the partition. It is gone on with the oldest that there is. */
  gone?(topic: string, partition: number): void
}

export interface ConsumerClient {
  /** Never rejects: what is wrong is an event, and tried again. */
  start(): Promise<void>
  /** @throws Error when the generation is over, or the broker refuses. */
  commit(generation: number, offsets: readonly PartitionOffset[]): Promise<void>
  /** Of partitions that this member has. */
  lags(): Promise<PartitionLag[]>
  /** Leaves the group. */
  stop(): Promise<void>
}

export interface OutgoingRecord {
  key: Buffer | null
  value: Buffer | null
  headers: Record<string, Buffer | string>
}

/** Brokers never take such a record, however often it is sent: it is larger than they allow. */
export class RecordRefused extends Error {}

/** Sends records, one after the other. */
export interface ProducerClient {
  /** Resolves when the broker has it, on all replicas in sync. @throws RecordRefused, and other errors for what may go well another time. */
  send(topic: string, record: OutgoingRecord): Promise<void>
  stop(): Promise<void>
}

export interface Access {
  brokers: string[]
  clientId: string
  /** Undefined = no TLS. */
  tls: { ca?: Buffer; cert?: Buffer; key?: Buffer } | undefined
  sasl: { mechanism: 'PLAIN' | 'SCRAM-SHA-256' | 'SCRAM-SHA-512'; username: string; password: string } | undefined
}

export interface ConsumerOptions {
  /** Asked at each connection: files may have changed. */
  access(): Promise<Access>
  groupId: string
  topics: string[]
  /**
   * Where a group begins that has committed nothing: milliseconds since the Unix epoch for a time. Partitions that come while this process is a member are read
   * from their begin.
   */
  begin: 'latest' | 'earliest' | number
  sessionTimeoutMs: number
  fetchMaxBytes: number
  fetchWaitMs: number
  /** Of one answer. */
  maxResponseBytes: number
  reconnectMs: number
  /** Lines of the library. */
  log(level: 'warn' | 'debug', text: string): void
}

/** A client library. */
export interface KafkaLibrary {
  consumer(options: ConsumerOptions, events: ConsumerEvents): ConsumerClient
  producer(options: Pick<ConsumerOptions, 'access' | 'log'>): ProducerClient
}
