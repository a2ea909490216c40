/** Forecasts as points: of a model's series, in a measurement of their own, so that whatever reads measurements sees them. */
import type { Svc } from 'svcdb'
import { classify, SvcError } from 'svcdb/lib/errors'
import type { Fields } from 'svcdb/lib/points'
import type { FollowResult, ForecastOf } from './compute.ts'
import type { Definition } from './definition.ts'
import type { ModelEntry } from './registry.ts'

/** The tag that says which model it was. */
const MODEL_TAG = 'model'
/** Of one write. */
const BATCH_ROWS = 4096

interface Row {
  fields: Fields
  time: bigint
}

/**
 * Writes `forecast`, `lower` and `upper` at the times ahead that may be written (database.future_write_tolerance_secs), and at times of samples that came `expected` and `score`.
 * A newer forecast of a time takes the place of the one before. @returns points written, and the last time of the forecast among them. @throws INVALID_REQUEST where no time of it may be written, and what writing throws.
 */
export async function writeForecast(svc: Svc, entry: ModelEntry, { forecast, scores }: FollowResult): Promise<{ points: number; until: bigint | undefined }> {
  const { namespace, forecast: job, name } = entry.kept.definition
  if (job === undefined || forecast === undefined) return { points: 0, until: undefined }
  const { newest } = await svc.storage.admission(namespace, job.target)
  requireBefore(newest, forecast.timestamps[0], name)
  return { points: await writeRows(svc, entry, job.target, rowsOf(forecast, newest, scores)), until: forecast.timestamps.findLast((time) => time <= newest) }
}

function* rowsOf(forecast: ForecastOf, newest: bigint, scores: FollowResult['scores']): Iterable<Row> {
  for (let h = 0; h < forecast.values.length && forecast.timestamps[h] <= newest; h++) {
    const fields = finite({ forecast: forecast.values[h], lower: forecast.lower[h], upper: forecast.upper[h] })
    if (fields !== undefined) yield { fields, time: forecast.timestamps[h] }
  }
  if (scores === undefined) return
  for (let i = 0; i < scores.times.length; i++) {
    const fields = finite({ expected: scores.expected[i], score: scores.values[i] })
    if (fields !== undefined) yield { fields, time: scores.times[i] }
  }
}

/** In parts: where one fails, the next forecast takes the place of those before it. @throws the first refusal of a row, when all others are written. */
async function writeRows(svc: Svc, entry: ModelEntry, target: string, rows: Iterable<Row>): Promise<number> {
  const { namespace, tags: own, name } = entry.kept.definition
  const tags = { ...own, [MODEL_TAG]: name }
  let written = 0
  let refusal: SvcError | undefined
  for (const some of batched(rows)) {
    const context = await svc.systemContext(namespace === '' ? undefined : namespace)
    // The namespace may be another's by now.
    if (!entry.alive) break
    const points = svc.ingest.points(context, { backfill: true, maxPoints: BATCH_ROWS, maxBytes: Number.POSITIVE_INFINITY })
    for (const { fields, time } of some) points.add(target, tags, fields, time)
    try {
      written += (await points.write()).written
    } catch (error) {
      const refused = classify(error)
      // Nothing was stored, or there will be room later.
      if (refused.detail?.rejected === undefined || refused.kind.retryAfter !== undefined) throw error
      refusal ??= refused
    }
  }
  if (refusal !== undefined) throw refusal
  return written
}

function* batched(rows: Iterable<Row>): Iterable<Row[]> {
  let some: Row[] = []
  for (const row of rows) {
    some.push(row)
    if (some.length < BATCH_ROWS) continue
    yield some
    some = []
  }
  if (some.length > 0) yield some
}

/** @throws INVALID_REQUEST where the first step of a model's forecasts may not be written, or would lose a tag of the series. */
export async function requireWritable(svc: Svc, { namespace, name, forecast, tags }: Definition, first: bigint): Promise<void> {
  if (forecast === undefined) return
  if (Object.hasOwn(tags, MODEL_TAG))
    throw new SvcError(
      'INVALID_REQUEST',
      `cannot write the forecast of model "${name}": its series has the tag "${MODEL_TAG}", which says in forecasts by which model they are; rename the tag, or leave out forecast`,
    )
  requireBefore((await svc.storage.admission(namespace, forecast.target)).newest, first, name)
}

function requireBefore(newest: bigint, first: bigint, name: string): void {
  if (first > newest)
    throw new SvcError(
      'INVALID_REQUEST',
      `cannot write the forecast of model "${name}": its first step at ${first} lies past ${newest}, the clock plus [database] future_write_tolerance_secs; raise that`,
    )
}

function finite(fields: Record<string, number>): Record<string, number> | undefined {
  const kept = Object.entries(fields).filter(([, value]) => Number.isFinite(value))
  return kept.length === 0 ? undefined : Object.fromEntries(kept)
}
