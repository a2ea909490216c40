import { FILE_PATH, Secret } from 'svcdb'
import { type Static, Type } from 'svcdb/lib/schema'

const count = (value: number, maximum: number, description: string) => Type.Integer({ default: value, minimum: 1, maximum, description })
const secs = (value: number, minimum: number, maximum: number, description: string) => Type.Number({ default: value, minimum, maximum, description })
const DAY = 86_400
const bound = (what: string, maximum = Number.MAX_SAFE_INTEGER) => Type.Integer({ default: 0, minimum: 0, maximum, description: `${what}; 0 = no bound` })

/** Letters, digits, `.`, `_` and `-`. */
const TENANT = '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$'

const capability = Type.String({ minLength: 1, maxLength: 128, description: 'What is to be done: the capability of a skill' })
const text = (description: string) => Type.String({ minLength: 1, maxLength: 256, description })
const closed = { additionalProperties: false }

const modelSchema = Type.Object(
  {
    name: Type.String({ pattern: '^[a-z][a-z0-9_]{0,63}$', description: 'What models.privileged.provider of a manifest names it by' }),
    kind: Type.Enum(['openai_compatible'], { default: 'openai_compatible', description: 'The protocol that it speaks' }),
    base_url: Type.String({ pattern: '^https?://[^@]*$', maxLength: 2048, description: 'Such as https://api.example/v1; credentials are what key_env names' }),
    key_env: Type.Optional(text('The variable of the environment that has its key; without it none is sent')),
    timeout_secs: secs(120, 0.05, 3600, 'How long an answer is waited for'),
    input_price: Type.Number({ default: 0, minimum: 0, description: 'Minor units of your currency, such as cents, for a million tokens that it reads' }),
    output_price: Type.Number({ default: 0, minimum: 0, description: 'For a million tokens that it writes' }),
  },
  closed,
)
const tenant = Type.String({ default: 'default', pattern: TENANT, description: 'Whose runs they are' })
const caseKind = Type.String({
  pattern: '^[a-z][a-z0-9_-]*(\\.[a-z0-9_-]+)*$',
  maxLength: 128,
  description: 'Of the case, when a new one is opened: words of a-z, 0-9, "_" and "-", with dots between',
})
const signalCase = Type.Object(
  {
    kind: caseKind,
    keys: Type.Array(Type.Object({ namespace: text('Of the key'), tag: text('Of the signal, whose value is that of the key') }, closed), {
      minItems: 1,
      maxItems: 16,
      description: 'By which it is found; a signal that lacks one of the tags begins no run',
    }),
  },
  { ...closed, description: 'That the run is in: the open one that has one of the keys, or else a new one with all; absent = none' },
)
const eventCase = Type.Object(
  { kind: caseKind },
  { ...closed, description: 'That the run is in: the open one that has one of the keys of the event, or else a new one with all; absent = none' },
)
const signalRule = Type.Object(
  {
    trigger: text('Name of the trigger'),
    capability,
    namespace: Type.String({ default: 'default', description: 'Of the trigger' }),
    tenant,
    case: Type.Optional(signalCase),
  },
  closed,
)
const eventRule = Type.Object({ kind: text('Of the event'), capability, tenant, case: Type.Optional(eventCase) }, closed)
const scheduleRule = Type.Object(
  {
    name: Type.String({ pattern: '^[a-z][a-z0-9_]{0,63}$', description: 'Lower case letters, digits and "_"' }),
    every_secs: Type.Number({ minimum: 0.05, maximum: 31 * DAY, description: 'From one begin to the next; one of a minute or more goes on over restarts' }),
    capability,
    input: Type.Record(Type.String(), Type.Unknown(), { default: {}, description: 'Of each run' }),
    tenant,
  },
  closed,
)

export const configSchema = Type.Object({
  tenants: Type.Array(Type.String({ pattern: TENANT }), {
    default: [],
    maxItems: 1000,
    description: 'Tenants beside "default", each with a plane of its own: letters, digits, ".", "_" and "-", at most 64. Skills are shared, all else is apart',
  }),
  agents: Type.Array(Type.String({ minLength: 1, ...FILE_PATH }), {
    default: [],
    maxItems: 1000,
    description: 'Files of modules with agents; each exports what defineAgent gives, as default or by name',
  }),
  models: Type.Array(modelSchema, {
    default: [],
    maxItems: 100,
    description: 'Providers of models, each with a table of its own; a manifest names one. "fake" is there always',
  }),
  on_signal: Type.Array(signalRule, { default: [], maxItems: 1000, description: 'Signals of triggers that begin runs, once each' }),
  on_event: Type.Array(eventRule, { default: [], maxItems: 1000, description: 'Events for which no run waits that begin runs, once each' }),
  schedules: Type.Array(scheduleRule, { default: [], maxItems: 1000, description: 'Runs that are begun again and again' }),
  tool_timeout_secs: secs(30, 0.05, 600, 'How long a call of a tool by HTTP waits for its answer'),
  allow_private_targets: Type.Boolean({
    default: false,
    description: 'Whether tools and models may be called by http, under internal names, and at addresses that are not public',
  }),
  lease_secs: secs(30, 2, 3600, 'A run whose process has said nothing for so long is taken up by another one; it says so three times in that time'),
  sweep_interval_secs: secs(
    5,
    0.05,
    3600,
    'How often runs are looked for that should go on: those of processes that ended, and those whose wait is over by its time',
  ),
  sweep_runs: count(
    256,
    100_000,
    'Runs that one such look takes up, of each tenant; where there are more, the next ones follow as soon as these have got their turn',
  ),
  max_driving: count(
    256,
    100_000,
    'Runs that go on at one time in this process, of all tenants; others wait for their turn, and a tenant that has the fewest is next. With several tenants a quarter is kept for those that have less than their share',
  ),
  max_queued: count(
    1024,
    1_000_000,
    'Runs that wait for their turn in this process, of all tenants, with a quarter kept likewise; what comes beside them gives its lease back, and is taken up when there is room, here or by another node',
  ),
  max_waiting_signals: count(
    10_000,
    1_000_000,
    'Signals of a tenant that are kept while their runs may not begin, for want of room or under a halt; what comes beside them begins none, and is counted',
  ),
  max_steps: count(1000, 1000, 'Steps that a run may begin; then it is exhausted, and goes on when there are more'),
  max_effects: count(10_000, 1_000_000, 'Attempts of effects that a run may begin; then likewise'),
  max_replans: bound('Plans of a run beside its first one'),
  max_denials: bound('What the policies may refuse a run; one more, and it is exhausted'),
  max_tokens: bound('Tokens that a run may spend; it may go over by what is under way'),
  max_minor_units: bound('Money that a run may spend, in units such as cents, likewise'),
  max_wallclock_secs: bound('Seconds from the beginning of a run, waits included'),
  max_egress_bytes: bound('Bytes that a run may send out'),
  max_journal_mb: count(
    64,
    65_536,
    'Mebibytes of records that a run may have: whoever looks at it, and each of its passes, has all of them in memory; then it is exhausted likewise',
  ),
  max_parallel_steps: bound('Steps of a run that are under way at one time', 1000),
  rates: Type.Array(
    Type.Object({
      grant: Type.String({ minLength: 1, maxLength: 512, description: 'What effects are done by, such as tool://server/name' }),
      allowed: count(1, 10_000, 'Attempts in a window, of all runs of a tenant'),
      window_secs: secs(60, 1, 31 * DAY, 'How far back they count'),
    }),
    {
      default: [],
      maxItems: 1000,
      description: 'How often effects may be done by one grant, by `[[agent_plane.rates]]` with `grant`, `allowed` and `window_secs`',
    },
  ),
  policy: Type.Optional(
    Type.String({
      minLength: 1,
      ...FILE_PATH,
      description:
        'Folder whose *.cedar files say which runs may be admitted and which effects performed, or one such file; read once at the start; absent = all may',
    }),
  ),
  quota: Type.Object(
    {
      max_concurrent_runs: bound('Runs of a tenant that go on at one time; more are not admitted. What waits for an event or a time does not count', 100_000),
      max_tokens_per_period: bound('Tokens that the runs of a tenant may spend in a period'),
      max_minor_units_per_period: bound('Money that the runs of a tenant may spend in a period, in units such as cents'),
      period: Type.Union([Type.Literal('month'), Type.Literal('day')], { default: 'month', description: 'Of UTC' }),
    },
    { default: {}, description: 'What each tenant may hold and spend' },
  ),
  push: Type.Array(
    Type.Object({
      id: Type.String({ pattern: '^[A-Za-z0-9._-]{1,64}$', description: 'Its registrations are called operator:<id>' }),
      url: Secret.schema({
        minLength: 1,
        maxLength: 2048,
        description: 'Where events are sent, as webhooks has it; its path may be what lets in, so it is not shown',
      }),
    }),
    {
      default: [],
      maxItems: 16,
      description: 'Who is told what becomes of every run, by `[[agent_plane.push]]` with `id` and `url`; the plugin webhooks sends and signs',
    },
  ),
  max_pushes_per_run: count(
    100,
    10_000,
    'Who may be told of one run, beside those of `[[agent_plane.push]]`; all are looked at whenever something happens to it',
  ),
  figures_namespace: Type.String({
    default: '',
    maxLength: 128,
    description:
      'Namespace that gets a point of the measurement agent_plane for each tenant and sweep, with the runs by status, what needs a person, and effects; empty = none',
  }),
  max_event_keys: count(64, 1000, 'Correlation keys of an event: each is looked for among those who wait'),
  max_buffered_events: count(
    100_000,
    10_000_000,
    'Events of a tenant that are kept because no run waits for them yet; more are refused with 503, and not known',
  ),
  max_buffered_mb: count(256, 1_048_576, 'Mebibytes that they may have together, likewise'),
  max_history_mb: count(8, 256, 'Mebibytes of records that one answer with a history has; it says that it is cut, and the next page of a run begins there'),
  event_grace_secs: secs(3600, 1, 365 * DAY, 'An event for which no run has waited so long after it came is a dead letter'),
  dedup_retention_days: Type.Integer({
    default: 0,
    minimum: 0,
    maximum: 36_500,
    description: 'For how many days an event is known by its source and id, so that it counts once; at least as long as event_grace_secs; 0 = for good',
  }),
  dead_letter_retention_days: Type.Integer({
    default: 90,
    minimum: 0,
    maximum: 36_500,
    description: 'For how many days a dead letter is kept behind the grace; 0 = for good',
  }),
  drill_every_secs: secs(0, 0, 365 * DAY, 'How often all cases and the transparency log are checked by reading them; 0 = never by itself'),
  drain_secs: secs(
    5,
    0,
    60,
    'How long a stop of the server waits for effects that are under way; no other one is begun, and their runs go on elsewhere or after the next start',
  ),
})

export type AgentPlaneConfig = Static<typeof configSchema>
