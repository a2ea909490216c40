import { alsoNamed } from 'svcdb'
import { type Static, Type } from 'svcdb/lib/schema'

export const configSchema = Type.Object({
  max_models: Type.Integer({
    default: 10_000,
    minimum: 1,
    maximum: 1_000_000,
    description: 'Models of all namespaces; max_models of a quota bounds those of one. Under server.multi_tenancy one namespace has at most three quarters',
  }),
  max_versions: Type.Integer({
    default: 10,
    minimum: 2,
    maximum: 1000,
    description: 'Versions that are kept of a model; of more the oldest that are retired go',
  }),
  max_training_points: Type.Integer({
    ...alsoNamed('database.max_training_points'),
    default: 1_000_000,
    minimum: 10,
    maximum: 10_000_000,
    description: 'Samples that a model is fitted to, or a detector looks at: the newest; the answer says how many were left out',
  }),
  max_forecast_horizon: Type.Integer({
    ...alsoNamed('database.max_forecast_horizon'),
    default: 8760,
    minimum: 1,
    maximum: 1_000_000,
    description: 'Steps that a forecast of a model may reach ahead',
  }),
  compute_threads: Type.Integer({
    default: 1,
    minimum: 0,
    maximum: 64,
    description: 'Threads that fit and forecast; they start when first needed. 0 = one for each processor, which ingest and queries then share',
  }),
  compute_memory_mb: Type.Integer({
    default: 256,
    minimum: 32,
    maximum: 65_536,
    description: 'Memory of one of them, beside the samples, in MiB: of objects as of buffers',
  }),
  training_timeout_secs: Type.Integer({ default: 60, minimum: 1, maximum: 86_400, description: 'Time limit of one training, forecast or detection' }),
  max_waiting: Type.Integer({
    default: 100,
    minimum: 1,
    maximum: 100_000,
    description: 'Requests that may wait for a thread; of more, the last one is refused of the namespace of which most wait',
  }),
  watch_interval_secs: Type.Integer({
    default: 60,
    minimum: 1,
    maximum: 86_400,
    description: 'Time between two rounds over the models: scheduled forecasts that are due are written, and drift is looked for',
  }),
  drift_threshold: Type.Number({
    default: 1.5,
    exclusiveMinimum: 1,
    maximum: 1000,
    description: 'Error on the newest samples, over that of the training, from which on a model has drifted',
  }),
  drift_points: Type.Integer({
    default: 30,
    minimum: 5,
    maximum: 100_000,
    description: 'Newest samples that drift is judged by, and that a Challenger has to win on',
  }),
  min_gain: Type.Number({
    default: 0.05,
    minimum: 0,
    maximum: 0.99,
    description: 'Part by which the error of another version has to be smaller for it to take the place of the Champion',
  }),
  max_derived_series: Type.Integer({ default: 100, minimum: 1, maximum: 100_000, description: 'Derived series of a namespace' }),
  max_derived_rows: Type.Integer({
    default: 100_000,
    minimum: 1,
    maximum: 10_000_000,
    description: 'Rows of one evaluation of a derived series; longer times are done in parts',
  }),
  derived_interval_secs: Type.Integer({ default: 5, minimum: 1, maximum: 86_400, description: 'Time between two looks for derived series that are due' }),
  derived_timeout_secs: Type.Integer({ default: 30, minimum: 1, maximum: 86_400, description: 'Time limit of one evaluation of a derived series' }),
  derived_memory_mb: Type.Integer({
    default: 32,
    minimum: 1,
    maximum: 65_536,
    description: 'Memory for what derived series have written, of all together, in MiB; what it does not hold is written again',
  }),
  refit_pause_secs: Type.Integer({
    default: 3600,
    minimum: 1,
    maximum: 2_592_000,
    description: 'Time between two attempts to replace a model that has drifted',
  }),
})

export type AnalyticsConfig = Static<typeof configSchema>
