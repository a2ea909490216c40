/** One slice of a rollup: computed beside the data, then brought into the target through the public ways in. */
import type { RunningJob, Svc } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { moduleUrl } from 'svcdb/lib/modules'
import { patiently } from 'svcdb/lib/source'
import type { RollupsConfig } from './config.ts'
import type { RollupMetrics } from './metrics.ts'
import type { RecomputeArgs, Recomputed } from './recompute-job.ts'
import type { Rollup } from './rollup.ts'
import { type Done, deleteStale, fill, plan } from './writer.ts'

const JOB = moduleUrl('./recompute-job.ts', import.meta.url)
/** Rows of one write: the event loop is held for some milliseconds at most. */
const BATCH_ROWS = 4096
/** Source rows that a slice is made to have. */
const WANTED_ROWS = 1_000_000
const MAX_WAIT_MS = 10_000

export interface Slice {
  /** Where it began: the range's start, or where the source begins. */
  start: bigint
  end: bigint
  written: number
}

export class Materialiser {
  private readonly svc: Svc
  private readonly config: RollupsConfig
  private readonly metrics: RollupMetrics

  constructor(svc: Svc, config: RollupsConfig, metrics: RollupMetrics) {
    this.svc = svc
    this.config = config
    this.metrics = metrics
  }

  /**
   * Computes buckets from `start` on (undefined = where the source begins), as many as one slice has, and replaces those of the target.
   * @returns how far it came; undefined when the source has nothing before `end`.
   */
  async slice(rollup: Rollup, start: bigint | undefined, end: bigint, signal: AbortSignal): Promise<Slice | undefined> {
    const result = await this.compute(rollup, start, end, signal)
    if (result === undefined) return undefined
    const { definition } = rollup
    const { deletes, write } = plan(result)
    await deleteStale(this.svc.storage, definition, deletes)
    const written = await this.write(rollup, result, write, signal)
    this.metrics.rows.inc(result.rows.sourceRows)
    return { start: start ?? result.start, end: result.end, written }
  }

  private async compute(rollup: Rollup, start: bigint | undefined, end: bigint, signal: AbortSignal): Promise<Done | undefined> {
    const { storage } = this.svc
    const { max_buckets_per_slice: maxBuckets, max_slice_bytes: maxBytes, job_timeout_secs: timeout, max_series_per_rollup: maxSeries } = this.config
    const { definition } = rollup
    for (;;) {
      const slice = Math.min(rollup.slice, maxBuckets)
      const args: RecomputeArgs = { definition, start, end, maxBuckets: slice, maxBytes, sql: storage.capabilities.has('sql'), plain: rollup.plain }
      const options = { namespace: definition.namespace, signal, timeoutMs: timeout * 1000, timeoutSetting: 'rollups.job_timeout_secs' }
      const job: RunningJob<Recomputed> = storage.run<Recomputed>(JOB, args, options)
      const result = await job.result
      if (result.state === 'empty') return undefined
      if (result.state === 'done') {
        rollup.plain = result.plain
        const { groups, sourceRows } = result.rows
        if (groups.length > maxSeries)
          throw refused(rollup, `its target would have ${groups.length} series, and rollups.max_series_per_rollup is ${maxSeries}; group by fewer tags`)
        if (sourceRows < WANTED_ROWS / 4) rollup.slice = Math.min(slice * 4, maxBuckets)
        else if (sourceRows > WANTED_ROWS * 2) rollup.slice = Math.max(1, slice >> 1)
        return result
      }
      if (slice === 1) throw refused(rollup, `one bucket takes more than rollups.max_slice_bytes of ${maxBytes}; choose a shorter width or group by fewer tags`)
      rollup.slice = Math.max(1, slice >> 2)
    }
  }

  private async write(rollup: Rollup, { rows }: Done, places: Int32Array, signal: AbortSignal): Promise<number> {
    if (places.length === 0) return 0
    const { definition } = rollup
    const { namespace, target, name } = definition
    const { keptFrom } = await this.svc.storage.admission(namespace, target)
    const admitted = keptFrom === undefined ? places : places.filter((place) => rows.times[place] >= keptFrom)
    let written = 0
    for (let at = 0; at < admitted.length; at += BATCH_ROWS) {
      const some = admitted.subarray(at, at + BATCH_ROWS)
      written += await patiently(
        async () => {
          signal.throwIfAborted()
          if (rollup.deleted) throw refused(rollup, 'it was deleted meanwhile')
          const context = await this.svc.systemContext(namespace === '' ? undefined : namespace)
          const result = await this.svc.ingest.write(context, { backfill: true }, (batch) => fill(batch, target, rows, some))
          const [first] = result.rejections
          if (first !== undefined)
            throw new SvcError(
              first.code as 'INVALID_POINT',
              `cannot materialise rollup "${name}": ${result.rejected} of its points were refused, the first: ${first.message}`,
            )
          return result.written
        },
        { signal, maxWaitMs: MAX_WAIT_MS },
      )
    }
    this.metrics.points.inc(written)
    return written
  }
}

function refused({ definition }: Rollup, cause: string): SvcError {
  return new SvcError('INVALID_REQUEST', `cannot materialise rollup "${definition.name}": ${cause}`)
}
