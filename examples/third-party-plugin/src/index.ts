import { definePlugin, SvcError, Type } from 'svcdb'
import { configSchema } from './config.ts'
import { addReading, checkReading, latest } from './reading.ts'

const path = Type.Object({ source: Type.String({ minLength: 1, maxLength: 256 }) })
const reading = Type.Record(Type.String(), Type.Number())

export default definePlugin({
  id: 'webhook',
  api: '1.0',
  summary: 'Numbers posted by a webhook become points',
  stability: 'beta',
  config: configSchema,
  capabilities: ['points'],
  setup(svc, config) {
    const received = svc.metrics.counter('webhook_readings_total', 'Readings stored')

    svc.http.post('/hooks/:source', { schema: { summary: 'Stores a reading', params: path, body: reading } }, async (request, reply) => {
      const checked = checkReading(request.body, config.max_fields)
      const context = svc.context(request)
      const { rejections } = await svc.ingest.write(context, {}, (batch) =>
        addReading(batch, config.measurement, request.params.source, svc.clock.nowNanos(), checked),
      )
      if (rejections.length > 0) throw new SvcError('INVALID_POINT', rejections[0].message)
      received.inc()
      return reply.code(204).send()
    })

    svc.http.get('/hooks/:source/latest', { schema: { summary: 'The newest value of each number', params: path } }, async (request) => {
      const { source } = request.params
      const start = svc.clock.nowNanos() - BigInt(config.latest_within_secs) * 1_000_000_000n
      const matchers = [{ tag: 'source', op: '=' as const, value: source }]
      const found = await latest(svc.storage.scan({ namespace: svc.context(request).dataNamespace, measurement: config.measurement, matchers, start }))
      if (found === undefined) throw new SvcError('NOT_FOUND', `cannot find a reading of "${source}": there is none within ${config.latest_within_secs} s`)
      return { source, time: new Date(Number(found.time / 1_000_000n)).toISOString(), reading: found.reading }
    })
  },
})
