import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { definePlugin } from 'svcdb'
import { Type } from 'svcdb/lib/schema'
import { exportDashboards } from './command.ts'
import { configSchema } from './config.ts'
import { DashboardFolder } from './folder.ts'
import { DashboardLibrary } from './library.ts'
import { dashboardMetrics } from './metrics.ts'

export default definePlugin({
  id: 'dashboards',
  summary: 'Brings Grafana dashboards of the server and of what it stores, and alert rules',
  stability: 'stable',
  config: configSchema,
  commands: [exportDashboards],
  setup(svc, config) {
    const directory = config.directory || (svc.dataDir === undefined ? '' : join(svc.dataDir, 'dashboards'))
    const library = new DashboardLibrary(new DashboardFolder(directory, config), {
      monotonic: () => svc.clock.monotonic(),
      problem: (text) => svc.log.warn(text),
    })
    dashboardMetrics(svc.metrics, () => library.counts)
    svc.start(() => {
      if (config.directory !== '' && !existsSync(directory))
        svc.log.warn(
          `cannot find the dashboards of ${JSON.stringify(directory)}: there is no such folder; make it, or name the right one as dashboards.directory`,
        )
      return library.open()
    })
    const tags = ['dashboards']
    const models = Type.Array(Type.Object({}, { additionalProperties: true, description: 'A whole dashboard model of Grafana' }))
    svc.http.get(
      '/api/v1/dashboards/export',
      { schema: { tags, summary: 'Whole dashboard models for Grafana', response: { 200: models } } },
      async (_request, reply) => reply.type('application/json').send(await library.export()),
    )
    svc.http.get('/api/v1/dashboards/rules', { schema: { tags, summary: "Alert rules for the server, in Prometheus' format" } }, async (_request, reply) =>
      reply.type('application/yaml').send(library.rules()),
    )
  },
})
