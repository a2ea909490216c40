import { definePlugin } from 'svcdb'
import { configSchema } from './config.ts'
import { addRoutes } from './routes.ts'
import { Rollups } from './wiring.ts'

// Schedules are local: each node of those that share the state computes and trims the points that it has.
export default definePlugin({
  id: 'rollups',
  summary: 'Aggregates measurements into buckets of time, each once, and again when what it was computed from has changed',
  stability: 'beta',
  config: configSchema,
  capabilities: ['points', 'delete', 'state', 'jobs', 'changes'],
  setup(svc, config) {
    const rollups = new Rollups(svc, config)
    svc.start(() => rollups.start())
    svc.ready(() => rollups.ready())
    svc.schedule('materialise', config.interval_ms, ({ signal }) => rollups.materialise(signal), { first: config.interval_ms, jitter: 0, local: true })
    svc.schedule('trim', config.trim_interval_secs * 1000, ({ signal }) => rollups.trim(signal), { local: true })
    svc.drain(() => rollups.drain())
    svc.stop(() => rollups.stop())
    addRoutes(svc.http, rollups.handler)
  },
})
