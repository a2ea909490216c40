/** Sparkplug B as a format of messages. */
import type { PointArrival, PointFormat, PointMessage, PointReader, PointSource, Svc, WriteBatch } from 'svcdb'
import { RecentMap } from 'svcdb/lib/cache'
import { SvcError } from 'svcdb/lib/errors'
import { OneByOne, type Work } from 'svcdb/lib/event-loop'
import type { SparkplugConfig } from './config.ts'
import { type DecodeMessage, Decoder, OUTCOMES } from './decoder.ts'
import type { SparkplugMetrics } from './metrics.ts'
import { rebirthRequest } from './payload.ts'
import { type Session, Sessions } from './sessions.ts'
import { commandTopic } from './topic.ts'

/** Edge nodes of which is known when they were asked last. */
const MAX_ASKED = 10_000
/** Requests of one reader in a second: after a restart all edge nodes are asked. */
const REQUESTS_PER_SECOND = 50

export function sparkplugFormat(svc: Svc, config: SparkplugConfig, metrics: SparkplugMetrics, readers: Set<SparkplugReader>): PointFormat {
  return {
    defaults: true,
    nonFinite: false,
    ordered: true,
    reader(source) {
      const reader = new SparkplugReader(svc, config, metrics, source)
      readers.add(reader)
      return reader
    },
  }
}

export class SparkplugReader implements PointReader {
  private readonly svc: Svc
  private readonly config: SparkplugConfig
  private readonly metrics: SparkplugMetrics
  private readonly source: PointSource | undefined
  private readonly sessions: Sessions
  private readonly arrivals = new OneByOne()
  private readonly decoder: Decoder
  /** When edge nodes were asked, milliseconds that never go back. */
  private readonly asked = new RecentMap<string, number>(MAX_ASKED)
  private second = { began: Number.NEGATIVE_INFINITY, requests: 0 }

  constructor(svc: Svc, config: SparkplugConfig, metrics: SparkplugMetrics, source: PointSource | undefined) {
    this.svc = svc
    this.config = config
    this.metrics = metrics
    this.source = source
    const missing = (group: string, node: string): void => this.ask(group, node)
    this.sessions = new Sessions({ maxMetrics: config.max_metrics, missing, gap: () => metrics.gaps.inc() })
    this.decoder = new Decoder(() => svc.storage.resolver, {
      stateMeasurement: config.state_measurement,
      maxFields: config.max_fields,
      maxNameBytes: config.max_name_bytes,
      maxStringBytes: config.max_string_bytes,
      missing: ({ group, node }) => missing(group, node),
    })
  }

  get known(): number {
    return this.sessions.size
  }

  arrived({ topic, body, redelivered }: PointArrival): Session | 'ignored' | Promise<Session | 'ignored'> {
    return this.arrivals.run(() => this.sessions.arrived(topic, body, redelivered))
  }

  interrupted(): void {
    this.sessions.interrupted()
  }

  read({ body, time, measurement, tags = [], arrival }: PointMessage, batch: WriteBatch): SvcError | undefined | Promise<SvcError | undefined> {
    if (arrival === undefined) throw new SvcError('BAD_REQUEST', 'cannot read a message of Sparkplug B: its source does not say which topic it came by')
    if (arrival === 'ignored') return undefined
    const session = arrival as Session
    return this.decoder.turns.run(() => this.decode({ body, session, time, measurement, tags }, batch))
  }

  private *decode(message: DecodeMessage, batch: WriteBatch): Work<SvcError | undefined> {
    const { decoder, metrics } = this
    try {
      return yield* decoder.decode(message, batch)
    } finally {
      for (const outcome of OUTCOMES) {
        if (decoder.counts[outcome] > 0) metrics.outcomes.inc({ outcome }, decoder.counts[outcome])
        decoder.counts[outcome] = 0
      }
      const { session } = message
      if (decoder.unsupported.length > 0 && (session.type === 'NBIRTH' || session.type === 'DBIRTH')) this.tell(session)
    }
  }

  /** Once for each birth: its messages are not told of. */
  private tell({ group, node, device }: Session): void {
    const origin = [group, node, ...(device === undefined ? [] : [device])].join('/').slice(0, 256)
    this.svc.log.warn({ origin }, `metrics of types that are not stored: ${this.decoder.unsupported.join(', ')}`)
  }

  private ask(group: string, node: string): void {
    const { config, source, svc } = this
    if (config.rebirth === 'never' || source?.send === undefined) return
    // A broker would end the connection for a wildcard.
    if (/[+#\0]/.test(group + node)) return
    const now = svc.clock.monotonic()
    const key = `${group}/${node}`
    if (now - (this.asked.get(key) ?? Number.NEGATIVE_INFINITY) < config.rebirth_interval_secs * 1000) return
    if (now - this.second.began >= 1000) this.second = { began: now, requests: 0 }
    if (this.second.requests >= REQUESTS_PER_SECOND) return
    this.second.requests++
    this.asked.set(key, now)
    this.metrics.rebirths.inc()
    source.send(commandTopic(group, node), rebirthRequest(svc.clock.now()))
  }
}
