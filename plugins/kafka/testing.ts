/** For tests: brokers with one group, in memory, and nodes with a connector to them. */
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises'
import { CONNECTORS, type Connectors, definePlugin, type PointFormat, pointFormat } from 'svcdb'
import { boot, type TestNode } from 'svcdb/testkit'
import type { Test } from 'tap'
import type { ConsumerClient, ConsumerEvents, ConsumerOptions, KafkaLibrary, KafkaRecord, OutgoingRecord, PartitionOffset } from './client.ts'
import { type ConnectorConfig, configSchema, connectorsOf } from './config.ts'
import { KafkaConnector } from './connector.ts'
import { kafkaMetrics } from './metrics.ts'

export type NewRecord = Partial<Omit<KafkaRecord, 'value'>> & { value: string | null }

/** Partitions of one topic, and a group that consumes it. */
export class FakeKafka {
  readonly topic = 'plant.press'
  readonly partitions: KafkaRecord[][]
  readonly committed: (number | undefined)[]
  readonly sent: { topic: string; record: OutgoingRecord }[] = []
  readonly members: FakeConsumer[] = []
  private generation = 0
  /** Asked before a commit counts. @throws what the member gets. */
  check: (offsets: readonly PartitionOffset[]) => Promise<void> = async () => {}

  constructor(partitions: number) {
    this.partitions = Array.from({ length: partitions }, () => [])
    this.committed = Array.from({ length: partitions }, () => undefined)
  }

  add(partition: number, { value, ...more }: NewRecord): void {
    const records = this.partitions[partition]
    const record = { offset: String(records.length), timestamp: String(Date.now()), key: null, headers: {}, ...more }
    records.push({ ...record, value: value === null ? null : Buffer.from(value) })
  }

  readonly library: KafkaLibrary = {
    consumer: (options, events) => new FakeConsumer(this, options, events),
    producer: () => ({
      send: async (topic, record) => {
        this.sent.push({ topic, record })
      },
      stop: async () => {},
    }),
  }

  /** Each member settles and commits what it has, and gets its share anew. @param wait false = of those that are there, none is waited for: the group has given them up. */
  async rebalance(wait = true): Promise<void> {
    if (wait) await Promise.all(this.members.map((member) => member.revoke()))
    else for (const member of this.members) member.fence()
    const generation = ++this.generation
    for (const [i, member] of this.members.entries()) {
      const owned = this.partitions.map((_, partition) => partition).filter((partition) => partition % this.members.length === i)
      member.assign(generation, owned)
    }
  }
}

export class FakeConsumer implements ConsumerClient {
  readonly options: ConsumerOptions
  private readonly kafka: FakeKafka
  private readonly events: ConsumerEvents
  private generation = -1
  private owned = new Map<number, number>()
  private ending = new AbortController()
  private loop: Promise<void> | undefined

  constructor(kafka: FakeKafka, options: ConsumerOptions, events: ConsumerEvents) {
    this.kafka = kafka
    this.options = options
    this.events = events
  }

  async start(): Promise<void> {
    this.kafka.members.push(this)
    await this.kafka.rebalance()
  }

  lose(message: string, state: 'reconnecting' | 'failed'): void {
    this.fence()
    this.events.lost(new Error(message), state)
  }

  async revoke(): Promise<void> {
    this.ending.abort()
    await this.loop
    this.fence()
  }

  /** It owns nothing from now on, and does not know it. */
  fence(): void {
    this.ending.abort()
    this.generation = -1
    this.owned.clear()
  }

  assign(generation: number, owned: readonly number[]): void {
    this.ending.abort()
    this.generation = generation
    this.owned.clear()
    this.ending = new AbortController()
    const { begin } = this.options
    for (const partition of owned) {
      const start = this.kafka.committed[partition] ?? (begin === 'earliest' ? 0 : this.kafka.partitions[partition].length)
      this.kafka.committed[partition] = start
      this.owned.set(partition, start)
    }
    const { topic } = this.kafka
    this.events.joined(
      generation,
      [...this.owned].map(([partition, offset]) => ({ topic, partition, offset })),
    )
    this.loop = this.run(generation, this.ending.signal)
  }

  private async run(generation: number, ending: AbortSignal): Promise<void> {
    while (!ending.aborted) {
      await Promise.all([...this.owned].map(([partition, from]) => this.fetch(generation, ending, partition, from)))
      await sleep(1)
    }
  }

  private async fetch(generation: number, ending: AbortSignal, partition: number, from: number): Promise<void> {
    const all = this.kafka.partitions[partition]
    const records = all.slice(from, from + 7)
    if (records.length === 0) return
    const next = await this.events.fetched({ topic: this.kafka.topic, partition, generation, records, behind: from + records.length, end: all.length, ending })
    if (this.generation === generation) this.owned.set(partition, next)
  }

  async commit(generation: number, offsets: readonly PartitionOffset[]): Promise<void> {
    await turn()
    await this.kafka.check(offsets)
    if (generation !== this.generation) throw new Error('the generation is over')
    for (const { partition, offset } of offsets) {
      if (!this.owned.has(partition)) throw new Error(`partition ${partition} is another's`)
      this.kafka.committed[partition] = offset
    }
  }

  async lags(): ReturnType<ConsumerClient['lags']> {
    const { topic, committed, partitions } = this.kafka
    return [...this.owned.keys()].map((partition) => ({ topic, partition, offset: committed[partition] ?? 0, end: partitions[partition].length }))
  }

  async stop(): Promise<void> {
    const at = this.kafka.members.indexOf(this)
    if (at < 0) return
    this.ending.abort()
    await this.loop
    this.fence()
    this.kafka.members.splice(at, 1)
    await this.kafka.rebalance()
  }

  /** What the library does about an offset that the broker does not have. */
  startOver(partition: number): void {
    this.kafka.committed[partition] = undefined
    this.owned.set(partition, 0)
  }

  /** As SIGKILL does it: nothing is settled or committed any more, and the group notices later. */
  kill(): void {
    this.fence()
    const at = this.kafka.members.indexOf(this)
    if (at >= 0) this.kafka.members.splice(at, 1)
  }
}

/** A node whose connector consumes from there. */
export async function start(
  t: Test,
  kafka: FakeKafka,
  more: Partial<ConnectorConfig> & { storage?: string; log?: (line: string) => void } = {},
): Promise<TestNode> {
  const { storage, log, ...keys } = more
  const plugin = definePlugin({
    id: 'fake',
    summary: 'A connector to brokers in memory',
    stability: 'experimental',
    config: configSchema,
    requires: [CONNECTORS],
    includes: ['connectors'],
    capabilities: ['points'],
    setup(svc, config) {
      const [own] = connectorsOf(config)
      const connector: KafkaConnector = new KafkaConnector(
        svc,
        own,
        kafkaMetrics(svc.metrics, () => [connector]),
        async () => kafka.library,
      )
      svc.use<Connectors>(CONNECTORS).add(connector)
      svc.start(() => connector.start(svc.find<PointFormat>(pointFormat(own.format))))
      svc.own(connector.name, ({ signal }) => connector.run(signal), { everywhere: true })
      svc.stop(() => connector.stop())
    },
  })
  const node = await boot({
    plugins: [plugin, 'line_protocol', 'native'],
    config: { fake: { brokers: 'b:1', topics: [kafka.topic], auto_offset_reset: 'earliest', ...keys } },
    ...(storage !== undefined && { storage }),
    ...(log !== undefined && { log }),
  } as never)
  t.teardown(() => node.stop())
  return node
}

export { listed, type Row, rowsOf } from '../../test/support/connectors.ts'
