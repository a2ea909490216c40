/** What is done again and again, how it fared, and why it failed last. */
import type { FastifyInstance } from 'fastify'
import { Type } from '../lib/schema/index.ts'
import type { ScheduleStatus } from './schedule.ts'

const time = (description: string) => Type.Optional(Type.Integer({ description: `${description}, milliseconds since the Unix epoch` }))
const schedules = Type.Object({
  schedules: Type.Array(
    Type.Object({
      plugin: Type.String(),
      name: Type.String(),
      running: Type.Boolean(),
      runs: Type.Integer(),
      failures: Type.Integer(),
      last_success: time('End of the last run that did not fail'),
      last_error: Type.Optional(Type.Object({ time: Type.Integer(), error: Type.String() }, { description: 'Of the last run that failed' })),
      elsewhere: Type.Boolean({ description: 'Another process did it when it was last due' }),
    }),
  ),
})

export function addSchedulesRoute(http: FastifyInstance, list: () => ScheduleStatus[]): void {
  const schema = { tags: ['admin'], summary: 'What the node does again and again, and how it fared', response: { 200: schedules } }
  http.get('/api/v1/admin/schedules', { config: { action: 'admin' }, schema }, async () => ({ schedules: list() }))
}
