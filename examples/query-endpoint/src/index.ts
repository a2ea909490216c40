import { definePlugin, Type } from 'svcdb'
import { moduleUrl } from 'svcdb/lib/modules'
import type { DewPoint } from './dew-point-job.ts'

const JOB = moduleUrl('./dew-point-job.ts', import.meta.url)
const path = Type.Object({ measurement: Type.String({ minLength: 1, maxLength: 256 }) })

export default definePlugin({
  id: 'comfort',
  summary: 'Dew points, in SQL and over HTTP',
  stability: 'beta',
  capabilities: ['sql', 'jobs', 'sql_functions'],
  setup(svc) {
    svc.sql.function({
      name: 'dew_point',
      kind: 'scalar',
      summary: 'Temperature at which the air would be saturated',
      args: [
        { name: 'temperature', type: 'DOUBLE' },
        { name: 'humidity', type: 'DOUBLE' },
      ],
      returns: 'DOUBLE',
      module: moduleUrl('./dew-point.ts', import.meta.url),
      bounded: true,
    })
    svc.http.get('/dew-point/:measurement', { schema: { summary: 'The highest dew point of each room', params: path } }, async (request) => {
      const namespace = svc.context(request).dataNamespace
      const { result } = svc.storage.run<DewPoint[]>(JOB, { namespace, measurement: request.params.measurement }, { namespace, timeoutMs: 10_000 })
      return { rooms: await result }
    })
  },
})
