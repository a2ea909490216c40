/** For tests: payloads as another implementation writes them, and what becomes of them. */
import { createRequire } from 'node:module'
import { WriteBatch } from 'svcdb/lib/columns'
import type { SvcError } from 'svcdb/lib/errors'
import { atOnce } from 'svcdb/lib/event-loop'
import { type DecodedPoint, FakeResolver, pointsOf } from 'svcdb/testkit'
import { Decoder } from './decoder.ts'
import { Sessions } from './sessions.ts'

export interface SentMetric {
  name?: string
  alias?: number
  timestamp?: number
  type?: string
  value: unknown
  isNull?: boolean
  isTransient?: boolean
  isHistorical?: boolean
  properties?: Record<string, { type: string; value: unknown }>
}

interface SentPayload {
  timestamp?: number
  seq?: number
  metrics?: SentMetric[]
}

interface Codec {
  encodePayload(payload: object): Uint8Array
}

const codec = (createRequire(import.meta.url)('sparkplug-payload') as { get(namespace: string): Codec }).get('spBv1.0')

export const encode = (payload: SentPayload): Uint8Array => codec.encodePayload(payload)

export const NOW = 1_700_000_000_000
export const ARRIVAL = BigInt(NOW) * 1_000_000n + 5n

export interface Host {
  resolver: FakeResolver
  sessions: Sessions
  decoder: Decoder
  /** Edge nodes that births were asked of. */
  asked: string[]
  gaps: number
  /** What comes of a message, and what is wrong with it. */
  take(topic: string, payload: SentPayload | Uint8Array, more?: { redelivered?: boolean; tags?: readonly string[]; measurement?: string }): Taken
}

export interface Taken {
  points: Omit<DecodedPoint, 'position'>[]
  error: SvcError | undefined
}

export function host(maxMetrics = 10_000): Host {
  const resolver = new FakeResolver()
  const asked: string[] = []
  const made: Host = {
    resolver,
    asked,
    gaps: 0,
    sessions: new Sessions({ maxMetrics, missing: (group, node) => void asked.push(`${group}/${node}`), gap: () => void made.gaps++ }),
    decoder: new Decoder(() => resolver, {
      stateMeasurement: 'state',
      maxFields: 1024,
      maxNameBytes: 256,
      maxStringBytes: 65_536,
      missing: ({ group, node }) => void asked.push(`${group}/${node}`),
    }),
    take(topic, payload, { redelivered = false, tags = [], measurement } = {}) {
      const body = payload instanceof Uint8Array ? payload : encode(payload)
      const session = atOnce(made.sessions.arrived(topic, body, redelivered))
      if (session === 'ignored') return { points: [], error: undefined }
      const batch = new WriteBatch(resolver)
      const error = atOnce(made.decoder.decode({ body, session, time: ARRIVAL, measurement, tags }, batch))
      return { points: pointsOf(batch, resolver).map(({ position: _, ...point }) => point), error }
    },
  }
  return made
}
