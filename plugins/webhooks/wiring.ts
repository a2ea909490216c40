/** The parts put together: made in setup, opened in the start phase, delivering while this process has the work. */
import { randomBytes } from 'node:crypto'
import type { ScheduledRun, Svc, WebhookReport } from 'svcdb'
import { publicResolver, type Resolve, systemResolver } from 'svcdb/lib/egress'
import { drainTime } from 'svcdb/lib/network'
import { authoritiesOf } from './authorities.ts'
import type { WebhooksConfig } from './config.ts'
import { Guard } from './guard.ts'
import { type Gauges, webhooksMetrics } from './metrics.ts'
import { Outbox } from './outbox.ts'
import { type Post, poster } from './post.ts'
import { Sender } from './sender.ts'
import { type Observers, WebhookService } from './service.ts'
import { signingKeys } from './signature.ts'

/** How often what other processes have queued is looked for. */
const NOTES_MS = 1000
/** What a stop leaves of the time that scheduled runs have to end in. */
const RUN_GRACE = 0.1

interface Parts {
  service: WebhookService
  /** Opens what is kept. */
  start(): Promise<void>
  /** Delivers until its signal is aborted. */
  run(given: Pick<ScheduledRun, 'signal' | 'guard'>): Promise<void>
  drain(): Promise<void>
  stop(): Promise<void>
}

/** @param resolve undefined = that of the machine. @throws Error for a signing secret or a file that cannot be used. */
export function assemble(svc: Svc, config: WebhooksConfig, resolve?: Resolve): Parts {
  const { clock } = svc
  const keys = signingKeys(config.signing_secrets)
  const allowPrivate = config.allow_private_targets
  const guard = new Guard(allowPrivate, resolve ?? (allowPrivate ? systemResolver() : publicResolver()))
  const observers: Observers = new Map()
  const report = (given: WebhookReport): void => notify(observers, given, svc.log)
  const held: { outbox?: Outbox; sender?: Sender; post?: Post } = {}
  const metrics = webhooksMetrics(svc.metrics, () => gaugesOf(held.sender, clock.now()))
  const outbox = () => held.outbox as Outbox
  const sender = () => held.sender as Sender
  const service = new WebhookService({
    outbox,
    sender,
    guard,
    post: () => held.post as Post,
    keys,
    stopping: svc.stopping,
    maxEventBytes: config.max_event_bytes,
    clock,
    metrics,
    report,
    observers,
  })
  const left = drainTime(svc)
  const shared = () => svc.storage.capabilities.has('shared_state')
  return {
    service,
    async start() {
      held.post = await openPost(svc, config, guard)
      held.outbox = openOutbox(svc, config, shared())
      held.sender = new Sender({ outbox: held.outbox, post: held.post, keys, metrics, report, ...senderOptions(svc, config) })
      if (keys.length === 0 && (await held.outbox.endpoints()).length > 0)
        svc.log.warn('webhooks.signing_secrets is empty: nothing is sent to the webhook endpoints there are, and what waits stays')
    },
    async run({ signal, guard }) {
      try {
        await outbox().begin(guard)
        await sender().start(guard)
        await until(signal, shared() ? NOTES_MS : undefined, clock, async () => {
          for (const key of await outbox().takeNotes(guard)) await sender().refresh(key)
        })
      } finally {
        // The work goes to another process: at once where the lease is lost, after what is under way where it is given up. Alone, a stop drains.
        if (shared()) await sender().stop(svc.stopping.aborted ? svc.server.shutdown_timeout_secs * 1000 * RUN_GRACE : 0)
      }
    },
    async drain() {
      await held.sender?.drain(left(Math.min(config.drain_secs, svc.server.shutdown_timeout_secs / 2) * 1000))
    },
    async stop() {
      await held.sender?.stop()
    },
  }
}

function notify(observers: Observers, report: WebhookReport, log: Svc['log']): void {
  const { owner } = report.endpoint
  for (const observer of observers.get(owner) ?? []) {
    try {
      observer(report)
    } catch (err) {
      log.warn({ err, owner }, 'a plugin has failed to take a report of its webhooks')
    }
  }
}

async function openPost({ clock }: Svc, { ca_file: caFile, timeout_secs: timeoutSecs }: WebhooksConfig, guard: Guard): Promise<Post> {
  const authorities = await authoritiesOf(caFile)
  return poster({ guard, timeoutMs: timeoutSecs * 1000, authorities, userAgent: 'svc-webhooks', now: () => clock.now() })
}

/** @param shared other processes have the same state: what they queue is noted for the one that delivers. */
function openOutbox(svc: Svc, config: WebhooksConfig, shared: boolean): Outbox {
  const limits = {
    queueSize: config.queue_size,
    namespaceBytes: config.namespace_queue_bytes,
    totalBytes: config.max_queue_bytes,
    namespaceEndpoints: config.namespace_endpoints,
    endpoints: config.max_endpoints,
  }
  const notes = shared ? () => randomBytes(12).toString('hex') : undefined
  return new Outbox(svc.storage.state(svc.id), limits, () => svc.clock.now(), notes)
}

function senderOptions({ clock, log, tracing }: Svc, config: WebhooksConfig) {
  return {
    clock,
    log,
    tracing,
    lanes: { total: config.max_in_flight, group: config.namespace_in_flight },
    endpointInFlight: config.endpoint_in_flight,
    retry: { initialMs: config.retry_initial_secs * 1000, maxMs: config.retry_max_secs * 1000, retryAfterMaxMs: config.retry_after_max_secs * 1000 },
    maxAgeMs: config.max_age_secs * 1000,
    parkAfterMs: config.park_after_secs * 1000,
    random: Math.random,
  }
}

/** Resolves when the signal is aborted. @param every milliseconds from one step to the next; undefined = there are none. @throws what a step throws. */
async function until(signal: AbortSignal, every: number | undefined, clock: Svc['clock'], step: () => Promise<void>): Promise<void> {
  while (!signal.aborted) {
    await new Promise<void>((resolve) => {
      const cancel = every === undefined ? () => {} : clock.after(every, done)
      function done(): void {
        signal.removeEventListener('abort', aborted)
        resolve()
      }
      function aborted(): void {
        cancel()
        resolve()
      }
      signal.addEventListener('abort', aborted, { once: true })
    })
    if (!signal.aborted && every !== undefined) await step()
  }
}

function gaugesOf(sender: Sender | undefined, now: number): Gauges {
  const gauges: Gauges = { waiting: 0, bytes: 0, oldestSeconds: 0, inFlight: sender?.inFlight ?? 0, endpoints: { active: 0, failing: 0, parked: 0 } }
  for (const target of sender?.all() ?? []) {
    gauges.endpoints[target.parked !== undefined ? 'parked' : target.failures > 0 || target.failingSince !== undefined ? 'failing' : 'active']++
    gauges.waiting += target.items.size
    gauges.bytes += target.bytes
    const oldest = target.oldest()
    if (oldest !== undefined) gauges.oldestSeconds = Math.max(gauges.oldestSeconds, (now - oldest.at) / 1000)
  }
  return gauges
}
