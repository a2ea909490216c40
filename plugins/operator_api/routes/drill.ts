/** The drill: whether what cases and the transparency log speak of can be read. */
import { type Operation, operation } from '../operation.ts'
import { Refusal } from '../refusal.ts'
import { closed, named, orNull, Type, timestamp, uint } from '../schema.ts'

const count = () => Type.Optional(orNull(uint()))

const DrillView = named(
  'DrillView',
  closed({
    drilled: Type.Boolean({ description: 'false: never' }),
    at: Type.Optional(orNull(timestamp())),
    cases: count(),
    findings: count(),
    log_size: count(),
    not_checked: count(),
    origin: Type.Optional(orNull(Type.String({ description: 'Names the transparency log' }))),
    sound: Type.Optional(orNull(Type.Boolean({ description: 'Nothing was found' }))),
  }),
)

export const drill: readonly Operation[] = [
  operation({
    method: 'GET',
    path: '/drill',
    operationId: 'last_drill',
    action: 'api:drill.read',
    summary: 'What the last drill has found',
    resource: '*',
    answer: DrillView,
    statuses: [404],
    handle({ plane }) {
      if (plane.drill === undefined) throw new Refusal(404, 'the plane has no case store, and nothing to drill')
      return plane.drill.last()
    },
  }),
]
