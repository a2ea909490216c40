import {
  AUDIT_LOG,
  type AuditLog,
  definePlugin,
  NAMESPACES,
  type NamespaceLifecycle,
  SIGNAL_SINK,
  type SignalSink,
  type Svc,
  WEBHOOKS,
  type Webhooks,
} from 'svcdb'
import { drainTime } from 'svcdb/lib/network'
import { Channels } from './channels.ts'
import { configSchema } from './config.ts'
import { Engine } from './engine.ts'
import { STREAM_PATH, TriggersHandler } from './handler.ts'
import { triggersMetrics } from './metrics.ts'
import * as schemas from './schemas.ts'
import { Subscribers } from './subscribers.ts'

/** How often places follow where nothing fires. */
const REST_MS = 10_000

export default definePlugin({
  id: 'triggers',
  summary: 'Fires signals when what is written fulfils conditions, delivers them, and shows them as annotations',
  stability: 'beta',
  config: configSchema,
  needsSection: true,
  capabilities: ['points', 'state', 'jobs', 'changes'],
  auditActions: ['trigger_alter'],
  setup(svc, config) {
    const metrics = triggersMetrics(svc.metrics, {
      triggers: () => engine.counts(),
      cooldowns: () => engine.cooldowns,
      behind: () => engine.behind,
      depth: () => channels.depth,
      subscribers: () => subscribers.count,
    })
    const webhooks = () => svc.find<Webhooks>(WEBHOOKS)
    const subscribers = new Subscribers(config.max_subscribers, config.max_subscribers_per_namespace)
    const auditLog = () => (config.audit_signals ? svc.find<AuditLog>(AUDIT_LOG) : undefined)
    const sink = () => svc.find<SignalSink>(SIGNAL_SINK)
    const channels = new Channels({ id: svc.id, log: svc.log, metrics, clock: svc.clock, logQueueSize: config.log_queue_size, webhooks, auditLog, sink })
    const engine = new Engine({
      id: svc.id,
      config,
      storage: () => svc.storage,
      webhooks,
      channels,
      metrics,
      log: svc.log,
      clock: svc.clock,
      publish: ({ namespace }) => subscribers.wake(namespace),
    })
    const handler = new TriggersHandler(svc, config, engine, subscribers)

    svc.start(async () => {
      await engine.prepare()
      const namespaces = svc.find<Partial<NamespaceLifecycle>>(NAMESPACES)
      namespaces?.holdDelete?.((name) => heldBy(engine.list(svc.server.multi_tenancy ? name : '').length, svc.server.multi_tenancy))
      await namespaces?.onDelete?.((name) => engine.forget(name), svc.id)
    })
    svc.ready(async () => {
      channels.observe()
      await engine.start()
    })
    svc.schedule('rest', REST_MS, () => engine.rest(), { local: true })
    const left = drainTime(svc)
    svc.drain(async () => {
      subscribers.wakeAll()
      await engine.rest().catch(() => {})
      await engine.stop()
      await channels.drained(left(config.drain_secs * 1000))
    })
    declareRoutes(svc, handler)
  },
})

function declareRoutes({ http }: Svc, handler: TriggersHandler): void {
  const action = { read: { action: 'read' }, write: { action: 'write' }, delete: { action: 'delete' } } as const
  const route = (summary: string, answer: object, more: object = {}) => ({ tags: ['triggers'], summary, ...more, response: { 200: answer } })
  const path = '/api/v1/triggers'
  http.post(
    path,
    { config: action.write, schema: route('Runs a statement about triggers', schemas.statementAnswer, { body: schemas.statementBody }) },
    (request, reply) => handler.statement(request, reply),
  )
  http.get(path, { config: action.read, schema: route('All triggers, by name', schemas.listing) }, (request, reply) => handler.list(request, reply))
  const params = schemas.namePath
  http.get(`${path}/:name`, { config: action.read, schema: route('A trigger', schemas.trigger, { params }) }, (request) => handler.get(request))
  http.delete(`${path}/:name`, { config: action.delete, schema: route('Drops a trigger', schemas.message, { params }) }, (request) => handler.delete(request))
  const signals = route('Signals, newest last', schemas.signals, { querystring: schemas.signalsQuery })
  http.get('/api/v1/signals', { config: action.read, schema: signals }, (request, reply) => handler.signals(request, reply))
  const annotations = route('Signals as annotations of graphs', schemas.annotations, { querystring: schemas.annotationsQuery })
  http.get('/api/v1/annotations', { config: action.read, schema: annotations }, (request, reply) => handler.annotations(request, reply))
  const stream = { tags: ['triggers'], summary: 'Annotations as they come, as server-sent events', querystring: schemas.streamQuery }
  http.get(STREAM_PATH, { config: action.read, schema: stream }, (request, reply) => handler.stream(request, reply))
}

/** Why a namespace must stay. */
function heldBy(triggers: number, apart: boolean): string | undefined {
  return triggers === 0 || !apart ? undefined : `it has ${triggers} trigger${triggers === 1 ? '' : 's'}`
}
