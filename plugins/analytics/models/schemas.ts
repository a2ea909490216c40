/** Shapes of requests and answers. */
import { Type } from 'svcdb/lib/schema'
import { MAX_NAME } from './definition.ts'

const MAX_TEXT = 256
const MAX_TAGS = 64
const MAX_FIELDS = 16
const MOST_SECS = 3_153_600_000

const text = (description: string) => Type.String({ minLength: 1, maxLength: MAX_TEXT, description })
const time = (description: string) =>
  Type.Optional(
    Type.Union([Type.Integer(), Type.String({ pattern: '^-?[0-9]{1,19}$' })], {
      description: `${description}; nanoseconds since the Unix epoch, as a number or as text`,
    }),
  )
const tags = Type.Optional(
  Type.Record(Type.String(), Type.String({ maxLength: MAX_TEXT }), { maxProperties: MAX_TAGS, description: 'Tags that only one series with the field has' }),
)

export const createBody = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: MAX_NAME, description: 'Letters, digits, "_", ".", ":" and "-"' }),
    measurement: text('What it is trained on'),
    field: text('A field of numbers'),
    tags,
    model_type: Type.Optional(
      Type.String({
        maxLength: MAX_NAME,
        description: 'ses (default), holt, holt_winters, arima, sarima, linear_regression, auto, or a kind that a plugin brings',
      }),
    ),
    params: Type.Optional(
      Type.Record(Type.String(), Type.Any(), {
        maxProperties: 64,
        description: 'alpha, beta, gamma, phi, period, multiplicative, order, seasonal_order, constant; of auto folds, metric, max_order, max_period, period',
      }),
    ),
    range: Type.Optional(
      Type.Object(
        {
          start: time('First time of the training'),
          end: time('End of the training, excluded; default: what there is'),
          last_secs: Type.Optional(
            Type.Integer({ minimum: 1, maximum: MOST_SECS, description: 'Instead of start: so long before the end, of each training anew' }),
          ),
        },
        { additionalProperties: false, description: 'Default: all' },
      ),
    ),
    forecast: Type.Optional(
      Type.Object(
        {
          target_measurement: Type.Optional(text('Where the points go; default <measurement>_forecast')),
          horizon: Type.Integer({ minimum: 1, maximum: 1_000_000, description: 'Steps ahead' }),
          every_secs: Type.Optional(Type.Integer({ minimum: 1, maximum: MOST_SECS, default: 300, description: 'Time between two forecasts' })),
          level: Type.Optional(
            Type.Number({ exclusiveMinimum: 0, exclusiveMaximum: 1, default: 0.95, description: 'Part of future values that lower and upper hold' }),
          ),
        },
        { additionalProperties: false, description: 'Has forecasts written again and again' },
      ),
    ),
  },
  { additionalProperties: false },
)

const nullable = (schema: ReturnType<typeof Type.Number> | ReturnType<typeof Type.String> | ReturnType<typeof Type.Integer>) =>
  Type.Union([schema, Type.Null()])
const accuracy = Type.Object({
  points: Type.Integer(),
  mse: nullable(Type.Number()),
  rmse: nullable(Type.Number()),
  mae: nullable(Type.Number()),
  mape: nullable(Type.Number({ description: 'A part of 1' })),
  r_squared: nullable(Type.Number()),
})
const nanos = (description: string) => Type.Integer({ description: `${description}; nanoseconds since the Unix epoch` })
const summary = {
  name: Type.String(),
  measurement: Type.String(),
  field: Type.String(),
  tags: Type.Record(Type.String(), Type.String()),
  model_type: Type.String({ description: 'Ses, HoltLinear, HoltWinters, Arima, Sarima, LinearRegression, Auto or Custom(name)' }),
  version: Type.Integer({ description: 'Of the Champion' }),
  training_points: Type.Integer(),
  mse: nullable(Type.Number()),
  mae: nullable(Type.Number()),
  r_squared: nullable(Type.Number()),
  status: Type.String({ description: 'ready, training, failing' }),
  drift_score: nullable(Type.Number({ description: 'Error on the newest samples over that of the training' })),
}
const version = Type.Object({
  version: Type.Integer(),
  tag: Type.String({ description: 'Champion, Challenger or Retired' }),
  kind: Type.String(),
  algorithm: Type.String(),
  hyperparameters: Type.Record(Type.String(), Type.String()),
  training_range: Type.Object({ start: nanos('First step'), end: nanos('Last step') }),
  interval_ns: Type.Integer({ description: 'Of a step' }),
  training_points: Type.Integer({ description: 'Samples it was fitted to' }),
  bridged_points: Type.Integer({ description: 'Steps that no sample gave' }),
  left_out_points: Type.Integer({
    description: 'Older samples of the range beyond analytics.max_training_points, as far as they were looked at: where `sampled` is true there may be more',
  }),
  sampled: Type.Boolean({ description: 'The range has more samples than analytics.max_training_points: the newest were used' }),
  metrics: accuracy,
  after: Type.Union([accuracy, Type.Null()], { description: 'On the newest samples after the training' }),
  created_at: Type.Integer({ description: 'Milliseconds since the Unix epoch' }),
  checksum: Type.String({ description: 'SHA-256 of its state' }),
  candidates: Type.Optional(Type.Array(Type.Any(), { description: 'Of auto: what was compared, and why it was not chosen' })),
})
export const model = Type.Object({
  ...summary,
  params: Type.Record(Type.String(), Type.Any()),
  range: Type.Object({ start: nullable(Type.Integer()), end: nullable(Type.Integer()), last_secs: nullable(Type.Integer()) }),
  forecast: Type.Union([
    Type.Object({
      target_measurement: Type.String(),
      horizon: Type.Integer(),
      every_secs: Type.Integer(),
      level: Type.Number(),
      written_until: nullable(Type.Integer({ description: 'Times further ahead than database.future_write_tolerance_secs are not written' })),
    }),
    Type.Null(),
  ]),
  parameters: Type.Any({ description: 'Of the fitted Champion: alpha, level, ar_coeffs, ...' }),
  created_at: Type.Integer(),
  training_data_start: nanos('First step'),
  training_data_end: nanos('Last step'),
  last_error: nullable(Type.String()),
  versions: Type.Array(version),
})
export const listing = Type.Object({ models: Type.Array(Type.Object(summary)), count: Type.Integer() })
export const listQuery = Type.Object({ measurement: Type.Optional(Type.String({ maxLength: MAX_TEXT })) })
export const modelPath = Type.Object({ measurement: Type.String(), name: Type.String() })
export const deleted = Type.Object({ ok: Type.Boolean(), message: Type.String() })
export const retrainBody = Type.Object(
  { measurement: text('Whose models'), model_name: Type.Optional(Type.String({ minLength: 1, maxLength: MAX_NAME, description: 'Default: all' })) },
  { additionalProperties: false },
)
export const retrained = Type.Object({ accepted: Type.Boolean(), models_queued: Type.Integer(), message: Type.String() })

export const forecastQuery = Type.Object({
  horizon: Type.Integer({ minimum: 1, maximum: 1_000_000, default: 12, description: 'Steps ahead' }),
  level: Type.Number({ exclusiveMinimum: 0, exclusiveMaximum: 1, default: 0.95, description: 'Part of future values that the intervals hold' }),
  version: Type.Optional(Type.Integer({ minimum: 1, description: 'Default: the Champion' })),
})
export const forecast = Type.Object({
  name: Type.String(),
  measurement: Type.String(),
  version: Type.Integer(),
  values: Type.Array(nullable(Type.Number())),
  timestamps: Type.Array(Type.Integer()),
  confidence_lower: Type.Array(nullable(Type.Number())),
  confidence_upper: Type.Array(nullable(Type.Number())),
  confidence_level: Type.Number(),
  interval_ns: Type.Integer(),
})

export const anomaliesBody = Type.Object(
  {
    measurement: text('Where to look'),
    field: Type.Optional(text('A field of numbers')),
    fields: Type.Optional(Type.Array(text('A field'), { minItems: 1, maxItems: MAX_FIELDS, description: 'Several that are looked at together' })),
    tags,
    detector: Type.Optional(
      Type.String({ maxLength: MAX_TEXT, description: 'zscore (default; of several fields mahalanobis), or another that anomaly_score of SQL takes' }),
    ),
    threshold: Type.Optional(Type.Number({ exclusiveMinimum: 0, description: "Score from which on a sample is an anomaly; default the detector's" })),
    start: time('First time'),
    end: time('End, excluded'),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100_000, default: 1000, description: 'Anomalies that are answered: the newest' })),
  },
  { additionalProperties: false },
)
export const anomalies = Type.Object({
  measurement: Type.String(),
  fields: Type.Array(Type.String()),
  tags: Type.Record(Type.String(), Type.String()),
  detector: Type.String(),
  threshold: Type.Number(),
  points: Type.Integer({ description: 'Samples that were looked at' }),
  left_out_points: Type.Integer({
    description: 'Older samples of the range beyond analytics.max_training_points, as far as they were looked at: where `sampled` is true there may be more',
  }),
  sampled: Type.Boolean({ description: 'The range has more samples than analytics.max_training_points: the newest were used' }),
  anomaly_count: Type.Integer(),
  anomalies: Type.Array(Type.Object({ timestamp: Type.Integer(), values: Type.Array(nullable(Type.Number())), score: nullable(Type.Number()) })),
  truncated: Type.Boolean(),
  correlations: Type.Optional(Type.Array(Type.Array(nullable(Type.Number())), { description: 'Pearson, of each pair of several fields' })),
})
