/** For tests: brokers in memory that fail as told, and a node whose changes are sent to them. */
import { definePlugin, type StateStore, type Storage, type Svc } from 'svcdb'
import { Type } from 'svcdb/lib/schema'
import { boot, type TestNode } from 'svcdb/testkit'
import type { Test } from 'tap'
import { type SinkConfig, sinkSchema } from './config.ts'
import { sinkMetrics } from './metrics.ts'
import { SendError, type SinkLibrary, type SinkProducer, type SinkRecord } from './producer.ts'
import { KafkaSink } from './sink.ts'

export interface Kept {
  topic: string
  key: string
  value: string
  headers: Record<string, string>
}

/** Brokers: what they have, in the order in which it came. */
export class FakeBrokers {
  readonly records: Kept[] = []
  /** Those of sends that were acknowledged. */
  readonly acknowledged = new Set<string>()
  sessions = 0
  open = 0
  /** Asked before a send. @returns what becomes of it. */
  behave: (records: readonly SinkRecord[]) => Promise<'take' | 'fail' | 'take and fail' | 'take a part'> = async () => 'take'
  /** Asked before a session. @throws what the sink is told. */
  admit: () => Promise<void> = async () => {}
  maxBytes = Number.POSITIVE_INFINITY

  readonly library: SinkLibrary = {
    open: async (): Promise<SinkProducer> => {
      await this.admit()
      this.sessions++
      this.open++
      let closed = false
      return {
        send: async (records) => {
          if (closed) throw new Error('the session is over')
          const outcome = await this.behave(records)
          if (records.some(({ value }) => value.length > this.maxBytes)) throw new SendError('record', 'the record is too large')
          if (outcome !== 'fail') this.add(outcome === 'take a part' ? records.slice(0, records.length >> 1) : records)
          if (outcome !== 'take') throw new SendError('away', 'the connection was closed')
          for (const { value } of records) this.acknowledged.add(`${value}`)
        },
        close: async () => {
          if (!closed) this.open--
          closed = true
        },
      }
    },
  }

  private add(records: readonly SinkRecord[]): void {
    for (const { topic, key, value, headers } of records) this.records.push({ topic, key: `${key}`, value: `${value}`, headers })
  }
}

export interface SinkNode {
  node: TestNode
  state: StateStore
  write(lines: string): Promise<void>
  sink(brokers: FakeBrokers, config?: Partial<SinkConfig>, more?: Partial<SinkLife>): KafkaSink
}

/** What of a node a sink gets in one of its lives. */
export interface SinkLife {
  storage: Pick<Storage, 'changes'>
  state: StateStore
  letters: { add(letter: { topic: string; body: Uint8Array; code: string; error: string }): Promise<void>; close(): Promise<void> }
  log: Svc['log']
  drainMs: number
  shared?: boolean
  library: SinkLibrary
}

/** @param storage name of an engine. */
export async function sinkNode(t: Test, storage = 'memory'): Promise<SinkNode> {
  let svc: Svc | undefined
  const plugin = definePlugin({
    id: 'sinks',
    summary: 'Has sinks',
    stability: 'experimental',
    config: Type.Object({}),
    capabilities: ['points', 'state'],
    setup(given) {
      svc = given
    },
  })
  const node = await boot({ plugins: ['line_protocol', 'native', 'connectors', plugin], storage })
  t.teardown(() => node.stop())
  const host = svc as unknown as Svc
  const state = node.storage.state('sinks')
  const metrics = sinkMetrics(host.metrics, () => [])
  return {
    node,
    state,
    async write(lines) {
      const answer = await node.inject({ method: 'POST', url: '/write?backfill=true', payload: lines })
      if (answer.statusCode !== 204) throw new Error(answer.body)
    },
    sink(brokers, config = {}, life = {}) {
      const defaults = {
        ...{ name: 'one', namespace: 'default', measurements: [], topic: 'all', format: 'json', compression: 'none', security_protocol: 'PLAINTEXT' },
        ...{ brokers: '127.0.0.1:1', max_batch_bytes: 900_000, max_message_bytes: 1_000_000, request_timeout_ms: 1000, reconnect_ms: 1, dead_letter_bytes: 1 },
      }
      if (Object.keys(defaults).some((key) => !(key in sinkSchema.properties))) throw new Error('a key that sinks do not have')
      return new KafkaSink(
        {
          storage: () => life.storage ?? node.storage,
          state: () => life.state ?? state,
          stateIsShared: () => life.shared ?? false,
          dataNamespace: async () => '',
          clock: host.clock,
          log: life.log ?? host.log,
          metrics,
          access: async () => ({ brokers: [], clientId: 'test', tls: undefined, sasl: undefined }),
          library: async () => life.library ?? brokers.library,
          letters: life.letters,
          drainMs: life.drainMs ?? 5000,
          keepMs: 1,
        },
        { ...defaults, ...config } as SinkConfig,
      )
    },
  }
}
