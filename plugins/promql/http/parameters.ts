/** What the OpenAPI description says of parameters. They are read by `Params`, which answers faults in the API's shape; nothing is validated from here. */

import { NOTHING } from 'svcdb'
import { type TObject, Type } from 'svcdb/lib/schema'

const text = (description: string) => Type.Optional(Type.String({ description }))
const texts = (description: string) => Type.Optional(Type.Array(Type.String(), { description }))

const ALL = {
  query: text('A PromQL expression'),
  time: text('Seconds since the epoch, or RFC 3339; default now'),
  start: text('Seconds since the epoch, or RFC 3339'),
  end: text('Seconds since the epoch, or RFC 3339'),
  step: text('Seconds, or a duration such as 1m30s'),
  timeout: text('Seconds, or a duration; at most server.prom_query_timeout_secs'),
  limit: text('Series, names, values or entries of the answer; 0 = as many as the server allows'),
  lookback_delta: text('How far instant selectors look back for a sample'),
  stats: text('true or all: statistics of the query besides'),
  'match[]': texts('Selectors; a series has to match one of them'),
  metric: text('The only metric wanted'),
  limit_per_metric: text('Entries of each metric'),
  type: text('alert or record'),
}

const failure = Type.Object(
  { status: Type.String(), errorType: Type.String(), error: Type.String(), code: Type.String() },
  { description: 'Any failure, in the shape of Prometheus; code is that of the other endpoints' },
)
const success = Type.Object(
  { status: Type.String(), data: Type.Unknown(), warnings: texts('What was left out or may be wrong'), infos: texts('What may not be meant') },
  { description: 'The answer in data' },
)
/** For the description only: answers are written as text. */
export const ANSWERS = { 200: success, default: failure }
/** Of what succeeds without an answer, and of what never succeeds. */
export const DONE = { 204: NOTHING, default: failure }
export const REFUSED = { 503: failure, default: failure }
export const FEDERATE_ANSWERS = { 200: Type.String({ description: 'A line for each series, with the time of its sample' }), default: failure }
export const READ_ANSWERS = { 200: Type.String({ description: 'A ReadResponse in snappy, or a stream of ChunkedReadResponse' }), default: failure }

export type ParameterName = keyof typeof ALL

export function describeParameters(names: readonly ParameterName[]): TObject {
  return Type.Object(Object.fromEntries(names.map((name) => [name, ALL[name]])))
}
