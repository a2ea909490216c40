/** One slice of the rollups of a source: computed beside the data out of one scan, then brought into each target through the public ways in. */
import type { RunningJob, Svc } from 'svcdb'
import { classify, SvcError } from 'svcdb/lib/errors'
import { moduleUrl } from 'svcdb/lib/modules'
import { patiently } from 'svcdb/lib/source'
import { firstOf } from './boundaries.ts'
import type { RollupsConfig } from './config.ts'
import type { RollupMetrics } from './metrics.ts'
import type { Done, RecomputeArgs, Recomputed, RecomputedPart, RecomputePart } from './recompute-job.ts'
import type { Rollup } from './rollup.ts'
import { batchesOf, deleteStale, fill, plan } from './writer.ts'

const JOB = moduleUrl('./recompute-job.ts', import.meta.url)
/** Of one write. */
const BATCH = { rows: 4096, weight: 32_768 }
/** Weight of rows that a slice is made to come to: the event loop is held while they are handed over. */
const WANTED_WEIGHT = 262_144
/** Source rows that a slice is made to have: a scan costs some milliseconds, and reads segments in large parts, whatever it is for. */
const WANTED_ROWS = 4_000_000
/** A slice is made to take no longer, and grows while it takes less than a part of it: memory of rows that are written meanwhile stays until its job ends. */
const LONG_MS = 4000
const MAX_WAIT_MS = 10_000

/** Work of one rollup: buckets from `start` on (undefined = where the source begins). */
export interface Work {
  rollup: Rollup
  start: bigint | undefined
  end: bigint
}

type Computed = Extract<Recomputed, { state: 'done' }>

/** What came of it: as the job has it, or an error. */
export type Outcome = Exclude<RecomputedPart, { state: 'failed' }> | { state: 'failed'; error: unknown }

export class Materialiser {
  private readonly svc: Svc
  private readonly config: RollupsConfig
  private readonly metrics: RollupMetrics
  /** How many rollups of a source one job may have, where it is not as many as there are. */
  private readonly limits = new Map<string, number>()
  /** Targets into which buckets are being brought, each until that has ended. */
  private readonly bringing = new Map<string, Promise<void>>()

  constructor(svc: Svc, config: RollupsConfig, metrics: RollupMetrics) {
    this.svc = svc
    this.config = config
    this.metrics = metrics
  }

  /** Computes buckets of one rollup, as many as one slice has, and replaces those of the target. @returns how far it came, and the first bucket with rows; undefined when the source has nothing before `end`. */
  async slice(
    rollup: Rollup,
    start: bigint,
    end: bigint,
    signal: AbortSignal,
  ): Promise<{ end: bigint; written: number; first: bigint | undefined } | undefined> {
    const [outcome] = await this.compute([{ rollup, start, end }], signal)
    if (outcome.state === 'failed') throw outcome.error
    if (outcome.state !== 'done') return undefined
    return { end: outcome.end, written: await this.bring(rollup, outcome, signal), first: firstOf(outcome.rows.times) }
  }

  /**
   * Computes buckets of rollups of one source: as many as one slice of the first has, and those of the others that lie there. An outcome for each: where others than the
   * first were left out, for there is no room for so many, they are apart. Never rejects.
   */
  async compute(works: readonly Work[], signal: AbortSignal): Promise<Outcome[]> {
    const [{ rollup: leader }] = works
    const { namespace, source } = leader.definition
    // What one before it, deleted since, still does to its target would not be seen.
    for (const { rollup } of works) await this.ended(rollup)
    const key = `${namespace}\0${source}`
    const { max_buckets_per_slice: maxBuckets } = this.config
    for (;;) {
      const together = works.slice(0, this.limits.get(key) ?? works.length)
      const slice = Math.min(leader.slice, maxBuckets)
      const parts = together.map(({ rollup: { definition }, start, end }, i) => ({ definition, start, end, maxBuckets: i === 0 ? slice : maxBuckets }))
      const began = this.svc.clock.monotonic()
      let result: Recomputed
      try {
        result = await this.run(leader, parts, signal)
      } catch (error) {
        const noRoom = classify(error).code === 'BACKPRESSURE'
        // What was ended for the memory that it kept was too long.
        if (noRoom) for (const { rollup } of together) rollup.slice = Math.max(1, Math.min(rollup.slice, slice) >> 1)
        if (signal.aborted || noRoom) return works.map(() => ({ state: 'failed', error }))
        // It is not known whose fault it is: each by itself then, until it goes well.
        if (together.length === 1) return works.map((_, i) => (i === 0 ? { state: 'failed', error } : APART))
        this.limits.set(key, 1)
        continue
      }
      if (result.state === 'done') {
        this.metrics.rows.inc(result.rowsRead)
        if (together.length < works.length) this.limits.set(key, together.length * 2)
        else this.limits.delete(key)
        const ms = this.svc.clock.monotonic() - began
        const { parts: done } = result
        return works.map(({ rollup }, i) => (i < together.length ? this.outcome(rollup, done[i], result, ms) : APART))
      }
      if (together.length > 1) this.limits.set(key, together.length >> 1)
      else if (slice === 1) {
        const cause = `one bucket takes more than rollups.max_slice_bytes of ${this.config.max_slice_bytes}; choose a shorter width or group by fewer tags`
        return works.map((_, i) => (i === 0 ? { state: 'failed', error: refused(leader, cause) } : APART))
      } else leader.slice = Math.max(1, slice >> 2)
    }
  }

  /** Replaces the buckets of the target by those computed. @returns points written. */
  async bring(rollup: Rollup, done: Done, signal: AbortSignal): Promise<number> {
    requireThere(rollup)
    const { promise, resolve } = Promise.withResolvers<void>()
    const key = targetOf(rollup)
    this.bringing.set(key, promise)
    try {
      const { deletes, write } = plan(done)
      await deleteStale(this.svc.storage, rollup.definition, deletes, () => requireThere(rollup))
      return await this.write(rollup, done, write, signal)
    } finally {
      this.bringing.delete(key)
      resolve()
    }
  }

  /** Nothing is being brought into its target. That of a rollup that is deleted breaks off. */
  async ended(rollup: Rollup): Promise<void> {
    await this.bringing.get(targetOf(rollup))
  }

  private run({ definition: { namespace, source }, plain }: Rollup, parts: RecomputePart[], signal: AbortSignal): Promise<Recomputed> {
    const { storage } = this.svc
    const { max_slice_bytes: maxBytes, job_timeout_secs: timeout } = this.config
    const args: RecomputeArgs = { namespace, source, parts, maxBytes, sql: storage.capabilities.has('sql'), plain }
    const job: RunningJob<Recomputed> = storage.run<Recomputed>(JOB, args, {
      ...{ namespace, signal, background: true, timeoutMs: timeout * 1000 },
      timeoutSetting: 'rollups.job_timeout_secs',
    })
    return job.result
  }

  private outcome(rollup: Rollup, part: RecomputedPart, { plain, weight }: Pick<Computed, 'plain' | 'weight'>, ms: number): Outcome {
    if (part.state === 'failed') return { state: 'failed', error: new SvcError(part.code, part.message) }
    rollup.plain = plain
    if (part.state !== 'done') return part
    const { buckets } = part
    const { groups, sourceRows } = part.rows
    const maxSeries = this.config.max_series_per_rollup
    if (groups.length > maxSeries) {
      const cause = `its target would have ${groups.length} series, and rollups.max_series_per_rollup is ${maxSeries}; group by fewer tags`
      return { state: 'failed', error: refused(rollup, cause) }
    }
    if (sourceRows < WANTED_ROWS / 4 && ms < LONG_MS / 4 && weight < WANTED_WEIGHT / 4)
      rollup.slice = Math.max(rollup.slice, Math.min(buckets * 4, this.config.max_buckets_per_slice))
    else if (sourceRows > WANTED_ROWS * 2 || ms > LONG_MS || weight > WANTED_WEIGHT * 2) rollup.slice = Math.max(1, Math.min(rollup.slice, buckets) >> 1)
    return part
  }

  private async write(rollup: Rollup, { rows }: Done, places: Int32Array, signal: AbortSignal): Promise<number> {
    if (places.length === 0) return 0
    const { definition } = rollup
    const { namespace, target, name } = definition
    const { keptFrom } = await this.svc.storage.admission(namespace, target)
    const admitted = keptFrom === undefined ? places : places.filter((place) => rows.times[place] >= keptFrom)
    let written = 0
    for (const some of batchesOf(rows, admitted, BATCH)) {
      written += await patiently(
        async () => {
          signal.throwIfAborted()
          requireThere(rollup)
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

const APART: Outcome = { state: 'apart' }

const targetOf = ({ definition: { namespace, target } }: Rollup): string => `${namespace}\0${target}`

function requireThere(rollup: Rollup): void {
  if (rollup.deleted) throw refused(rollup, 'it was deleted meanwhile')
}

function refused({ definition }: Rollup, cause: string): SvcError {
  return new SvcError('INVALID_REQUEST', `cannot materialise rollup "${definition.name}": ${cause}`)
}
