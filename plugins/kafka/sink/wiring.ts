/** Sinks of a node: what each is given, and when it starts and stops. */
import type { Connectors, Svc } from 'svcdb'
import { drainTime } from 'svcdb/lib/network'
import { deadLettersOf } from 'svcdb/lib/source'
import { accessOf } from '../access.ts'
import type { SinkConfig } from './config.ts'
import { sinkMetrics } from './metrics.ts'
import { KafkaSink } from './sink.ts'

/** A crash sends again what is between two positions that are kept. */
const KEEP_MS = 500
const NEEDED = [
  ['state', 'keeps no state'],
  ['changes', 'tells no changes'],
] as const
/** Of the time that a node has to stop. */
const DRAIN_SHARE = 0.3

/** Call it in setup. */
export function addSinks(svc: Svc, configs: readonly SinkConfig[], listing: Connectors): void {
  const sinks: KafkaSink[] = []
  const left = drainTime(svc)
  const metrics = sinkMetrics(svc.metrics, () => sinks)
  for (const config of configs) {
    const { name } = config
    const letters = deadLettersOf(svc.dataDir, {
      name,
      maxBytes: config.dead_letter_bytes,
      dropped: (changes) => metrics.dropped.inc({ sink: name }, changes),
    })
    const sink = new KafkaSink(
      {
        storage: () => svc.storage,
        state: () => svc.storage.state(svc.id),
        stateIsShared: () => svc.nodes.isShared,
        dataNamespace: async () => (await svc.systemContext(config.namespace, { name })).dataNamespace,
        clock: svc.clock,
        log: svc.log,
        metrics,
        access: () => accessOf(config),
        library: async () => (await import('./kafkajs-producer.ts')).kafkajsSink,
        letters,
        get drainMs() {
          return left(svc.server.shutdown_timeout_secs * 1000 * DRAIN_SHARE)
        },
        keepMs: KEEP_MS,
      },
      config,
    )
    listing.add(sink)
    sinks.push(sink)
  }
  if (sinks.length === 0) return
  svc.start(() => {
    for (const [capability, lacking] of NEEDED)
      if (!svc.storage.capabilities.has(capability))
        throw new Error(`cannot start kafka.sink "${sinks[0].name}": the storage engine of this node ${lacking}; leave the sinks out`)
  })
  svc.ready(() => {
    for (const sink of sinks) sink.start()
  })
  svc.drain(async () => {
    await Promise.all(sinks.map((sink) => sink.stop()))
  })
}
