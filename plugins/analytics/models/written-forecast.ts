/** Forecasts as points: of a model's series, in a measurement of their own, so that whatever reads measurements sees them. */
import type { Svc } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import type { FollowResult } from './compute.ts'
import type { Definition } from './definition.ts'
import type { KeptModel } from './record.ts'

/** The tag that says which model it was. */
const MODEL_TAG = 'model'

/**
 * Writes `forecast`, `lower` and `upper` at the times ahead that may be written (database.future_write_tolerance_secs), and at times of samples that came `expected` and `score`.
 * A newer forecast of a time takes the place of the one before. @returns points written, and the last time of the forecast among them. @throws INVALID_REQUEST where no time of it may be written, and what writing throws.
 */
export async function writeForecast(
  svc: Svc,
  { definition }: KeptModel,
  { forecast, scores }: FollowResult,
): Promise<{ points: number; until: bigint | undefined }> {
  const { namespace, forecast: job, tags: own, name } = definition
  if (job === undefined || forecast === undefined) return { points: 0, until: undefined }
  const { newest } = await svc.storage.admission(namespace, job.target)
  const context = await svc.systemContext(namespace === '' ? undefined : namespace)
  const tags = { ...own, [MODEL_TAG]: name }
  requireBefore(newest, forecast.timestamps[0], name)
  let until: bigint | undefined
  const points = svc.ingest.points(context, { backfill: true })
  for (let h = 0; h < forecast.values.length; h++) {
    if (forecast.timestamps[h] > newest) break
    const fields = finite({ forecast: forecast.values[h], lower: forecast.lower[h], upper: forecast.upper[h] })
    if (fields !== undefined) points.add(job.target, tags, fields, forecast.timestamps[h])
    until = forecast.timestamps[h]
  }
  if (scores !== undefined)
    for (let i = 0; i < scores.times.length; i++) {
      const fields = finite({ expected: scores.expected[i], score: scores.values[i] })
      if (fields !== undefined) points.add(job.target, tags, fields, scores.times[i])
    }
  return { points: points.length === 0 ? 0 : (await points.write()).written, until }
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
