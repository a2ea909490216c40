import { type Static, Type } from 'svcdb/lib/schema'

const count = (value: number, maximum: number, description: string) => Type.Integer({ default: value, minimum: 1, maximum, description })
const secs = (value: number, minimum: number, maximum: number, description: string) => Type.Number({ default: value, minimum, maximum, description })
const DAY = 86_400

/** Letters, digits, `.`, `_` and `-`. */
const TENANT = '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$'

export const configSchema = Type.Object({
  tenants: Type.Array(Type.String({ pattern: TENANT }), {
    default: [],
    maxItems: 1000,
    description: 'Tenants beside "default", each with a plane of its own: letters, digits, ".", "_" and "-", at most 64. Skills are shared, all else is apart',
  }),
  lease_secs: secs(30, 2, 3600, 'A run whose process has said nothing for so long is taken up by another one; it says so three times in that time'),
  sweep_interval_secs: secs(
    5,
    0.05,
    3600,
    'How often runs are looked for that should go on: those of processes that ended, and those whose wait is over by its time',
  ),
  sweep_runs: count(256, 100_000, 'Runs that one such look takes up, of each tenant'),
  max_driving: count(256, 100_000, 'Runs that go on at one time in this process, of all tenants; others wait for their turn'),
  max_steps: count(1000, 1000, 'Steps that a run may begin; then it is exhausted, and goes on when there are more'),
  max_effects: count(10_000, 1_000_000, 'Attempts of effects that a run may begin; then likewise'),
  event_grace_secs: secs(3600, 1, 365 * DAY, 'An event for which no run has waited so long after it came is a dead letter'),
  drain_secs: secs(5, 0, 60, 'How long a stop of the server waits for steps that are under way; they are begun again after the next start'),
})

export type AgentPlaneConfig = Static<typeof configSchema>
