import { administersServer, definePlugin } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { Type } from 'svcdb/lib/schema'
import { configSchema } from './config.ts'
import { streamMetrics } from './metrics.ts'
import { PointFrames } from './point-frames.ts'
import { opened, subscriptionOf } from './request.ts'
import { Subscriber } from './subscriber.ts'

const querystring = Type.Object({
  measurement: Type.Optional(Type.String({ maxLength: 65_536, description: 'Names of measurements, with commas between them; absent = all' })),
  event_type: Type.Optional(
    Type.String({
      maxLength: 1024,
      description: 'point_written, series_deleted, measurement_dropped, measurement_restored, with commas between them; absent = all',
    }),
  ),
})

const PATH = '/api/v1/cdc/stream'

export default definePlugin({
  id: 'cdc',
  summary: 'Streams writes, deletes and drops as server-sent events',
  stability: 'beta',
  config: configSchema,
  capabilities: ['points', 'changes'],
  setup(svc, config) {
    const subscribers = new Set<Subscriber>()
    const byNamespace = new Map<string, number>()
    const metrics = streamMetrics(svc.metrics, subscribers)
    const points = new PointFrames(() => subscribers.size > 1)
    const schema = { tags: ['cdc'], summary: 'Changes as they happen, as server-sent events; endless', querystring, produces: ['text/event-stream'] }
    svc.http.get(PATH, { schema, config: { action: 'read' } }, async (request, reply) => {
      const context = svc.context(request)
      const namespace = context.dataNamespace
      const header = request.headers['last-event-id']
      const lastId = Array.isArray(header) ? header[0] : header
      const subscription = subscriptionOf(request.query, lastId, namespace !== '' && !administersServer(context))
      // A stream that nobody reads would not end.
      if (request.method === 'HEAD') return reply.type('text/event-stream').send('')
      if (svc.stopping.aborted) throw new SvcError('DATABASE_CLOSED', 'cannot stream changes: the server stops; connect to another one, or again later')
      const own = byNamespace.get(namespace) ?? 0
      if (subscribers.size >= config.max_subscribers)
        throw new SvcError(
          'RATE_LIMITED',
          `cannot stream changes: ${config.max_subscribers} streams are open, as many as cdc.max_subscribers lets; end one, or raise it`,
        )
      if (namespace !== '' && own >= config.max_subscribers_per_namespace)
        throw new SvcError(
          'RATE_LIMITED',
          `cannot stream changes: ${own} streams of the namespace are open, as many as cdc.max_subscribers_per_namespace lets; end one`,
        )
      const { measurements, kinds, after } = subscription
      const cursor = opened(lastId, () =>
        svc.storage.changes({
          namespace,
          kinds,
          ...(measurements === undefined ? {} : { measurements }),
          ...(after === undefined ? {} : { after }),
        }),
      )
      const stands = svc.auth.standing(context, 'read', PATH)
      const subscriber = new Subscriber({ stands, cursor, subscription, points, config, clock: svc.clock, metrics })
      subscribers.add(subscriber)
      byNamespace.set(namespace, own + 1)
      subscriber.output.once('close', () => {
        subscribers.delete(subscriber)
        if (subscribers.size === 0) points.clear()
        const left = (byNamespace.get(namespace) ?? 1) - 1
        if (left > 0) byNamespace.set(namespace, left)
        else byNamespace.delete(namespace)
      })
      // Also when the client goes before the first byte is sent.
      reply.raw.once('close', () => subscriber.output.destroy())
      subscriber.run().catch((error) => svc.log.error({ err: error }, 'a stream of changes has failed'))
      return reply.type('text/event-stream').header('cache-control', 'no-store').header('x-accel-buffering', 'no').send(subscriber.output)
    })
    const endAll = (): void => {
      for (const subscriber of subscribers) subscriber.end('drained', 'the server stops; connect again with Last-Event-ID to go on')
    }
    svc.start(() => svc.stopping.addEventListener('abort', endAll, { once: true }))
    svc.stop(() => {
      for (const subscriber of subscribers) subscriber.output.destroy()
    })
  },
})
