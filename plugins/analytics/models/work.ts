/** What models need of the data and of the threads that compute: samples are read, and models trained and followed. */
import type { Svc } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { moduleUrl } from 'svcdb/lib/modules'
import type { AnalyticsConfig } from '../config.ts'
import { UnfitError } from '../forecast/model.ts'
import type { FollowResult, Standing } from './compute.ts'
import type { ComputeThreads, Run } from './compute-threads.ts'
import { type Definition, rangeOf } from './definition.ts'
import { kindOf } from './kind-names.ts'
import type { FitSpec, KeptState } from './kinds.ts'
import { type ModelMetrics, observe } from './metrics.ts'
import type { ReadArgs, ReadSeries } from './read-job.ts'
import { MOST_STEPS, type Version } from './record.ts'
import type { ModelEntry, Registry } from './registry.ts'

const JOB = moduleUrl('./read-job.ts', import.meta.url)
/** Steps that `auto` compares candidates by, where no scheduled forecast says how many matter. */
const AUTO_HORIZON = 12

export interface WorkDependencies {
  svc: Svc
  config: AnalyticsConfig
  registry: Registry
  threads: ComputeThreads
  metrics: ModelMetrics
  /** Registered kinds by name. */
  custom: ReadonlyMap<string, URL>
}

export interface Selection {
  namespace: string
  measurement: string
  fields: readonly string[]
  tags: Readonly<Record<string, string>>
  /** They are all the tags of the series: others that have more are not meant. */
  exact?: true
  start?: bigint
  end?: bigint
}

/** Work that somebody waits for, or that runs by itself. */
export interface Call {
  signal: AbortSignal
  asked: boolean
}

/** So much has come since a version's training that it is better trained again than followed. */
export class AgedError extends Error {}

/** Part of what a version can be followed over that may come before it is trained again. */
const AGED = 0.5

export class Work {
  private readonly dependencies: WorkDependencies
  /** Fields that are known not to be encrypted. */
  private readonly plain = new Set<string>()

  constructor(dependencies: WorkDependencies) {
    this.dependencies = dependencies
  }

  async train(definition: Definition, { signal, asked }: Call, exact = true) {
    const { threads, metrics, config } = this.dependencies
    return threads.turn({ signal, asked, namespace: definition.namespace }, async (run) => {
      const spec = this.specOf(definition)
      const { times, columns, found, tags } = await this.read(this.selectionOf(definition, exact), signal)
      const { trained, seconds } = await run({ kind: 'train', samples: { times, values: columns[0] }, spec, most: config.max_training_points })
      observe(metrics, seconds)
      // Looks count what comes later: what a model is trained on again they have counted.
      if (!exact) metrics.clockCorrections.inc(trained.moved)
      return { trained, found, tags }
    })
  }

  /** Follows versions over what came after their training. @throws AgedError. */
  async followed(
    run: Run,
    entry: ModelEntry,
    versions: readonly Version[],
    {
      horizon,
      level,
      since,
      scoresAfter,
      young = false,
      movedAfter,
    }: {
      horizon: number
      level: number
      since: bigint
      scoresAfter: bigint | undefined
      /** It may not have aged. */
      young?: boolean
      /** Moved samples after this time have not been counted yet; absent = they are not to be. */
      movedAfter?: bigint
    },
    signal: AbortSignal,
  ): Promise<FollowResult> {
    const { config, metrics } = this.dependencies
    const { definition } = entry.kept
    const standing = await Promise.all(versions.map((version) => this.standing(entry, version)))
    const start = standing.map(({ end }) => end).reduce((first, end) => (end < first ? end : first)) + 1n
    const series = await this.read({ ...this.selectionOf(definition), start, end: undefined }, signal, { maybeNone: true })
    if (young && (series.found > AGED * config.max_training_points || stepsOf(standing[0], series.times) > AGED * MOST_STEPS)) throw new AgedError()
    const samples = { times: series.times, values: series.columns[0] }
    const task = {
      kind: 'follow',
      samples,
      versions: standing,
      since,
      window: config.drift_points,
      horizon,
      level,
      scoresAfter,
      movedAfter,
      most: config.max_training_points,
    } as const
    const found = await run(task)
    observe(metrics, found.seconds)
    metrics.clockCorrections.inc(found.moved)
    return found
  }

  async standing(entry: ModelEntry, version: Version): Promise<Standing> {
    const state = await this.dependencies.registry.readState(entry, version)
    const module = this.moduleOf(entry.kept.definition.model, version.kind)
    const kept: KeptState = module === undefined ? state : { ...state, module }
    return { state: kept, end: BigInt(version.training_end), interval: BigInt(version.interval) }
  }

  specOf({ model, parameters, forecast }: Definition): FitSpec {
    const module = this.moduleOf(model, kindOf(model))
    return { model, parameters, horizon: forecast?.horizon ?? AUTO_HORIZON, ...(module === undefined ? {} : { module }) }
  }

  private moduleOf(model: string, kind: string): string | undefined {
    if (!kind.startsWith('Custom(')) return undefined
    const url = this.dependencies.custom.get(model)
    if (url === undefined) throw new UnfitError(`nothing registers the model kind "${model}" any more; select the plugin that brings it`)
    return url.href
  }

  /** @param exact its tags are those of its series: they are once it was trained. */
  selectionOf(definition: Definition, exact = true): Selection {
    const { namespace, measurement, field, tags } = definition
    const range = rangeOf(definition, this.dependencies.svc.clock.nowNanos())
    return { namespace, measurement, fields: [field], tags, ...(exact ? { exact } : {}), ...range }
  }

  /** Time of the newest sample that came after a training, to the millisecond; undefined = none came. */
  async newest(definition: Definition, { training_end }: Version, signal: AbortSignal): Promise<bigint | undefined> {
    const selection = { ...this.selectionOf(definition), start: BigInt(training_end) + 1n, end: undefined }
    const { found, times } = await this.read(selection, signal, { maybeNone: true, most: 0 })
    return found === 0 ? undefined : times[0]
  }

  /** @param maybeNone no samples are no error. @throws NOT_FOUND, INVALID_REQUEST. */
  async read(selection: Selection, signal: AbortSignal, { maybeNone = false, most = this.dependencies.config.max_training_points } = {}): Promise<ReadSeries> {
    const { svc, config } = this.dependencies
    const { namespace, measurement, fields, tags, start, end } = selection
    const key = JSON.stringify([namespace, measurement, fields])
    const args: ReadArgs = {
      ...{ namespace, measurement, fields, tags, most, plain: this.plain.has(key), exact: selection.exact === true },
      ...(start === undefined ? {} : { start }),
      ...(end === undefined ? {} : { end }),
    }
    const options = { namespace, signal, timeoutMs: config.training_timeout_secs * 1000, timeoutSetting: 'analytics.training_timeout_secs' }
    const found = await svc.storage.run<ReadSeries | undefined>(JOB, args, options).result
    if (this.plain.size > 100_000) this.plain.clear()
    this.plain.add(key)
    if (found !== undefined) return found
    if (maybeNone) return { tags: { ...tags }, times: new BigInt64Array(0), columns: fields.map(() => new Float64Array(0)), found: 0 }
    const named = fields.map((field) => `"${field}"`).join(', ')
    throw new SvcError('NOT_FOUND', `no series of "${measurement}" has these tags and a value of ${named} in the range${unitHint(end)}`)
  }
}

/** 1973, in nanoseconds: an end before it is mostly a time of another unit. */
const PLAUSIBLE = 10n ** 17n
const unitHint = (end: bigint | undefined): string =>
  end === undefined || end >= PLAUSIBLE ? '' : `; its end ${end} is in nanoseconds, and so in or about 1970: check its unit`

/** From the end of a training to the newest sample. */
function stepsOf({ end, interval }: Standing, times: BigInt64Array): number {
  return times.length === 0 ? 0 : Number((times[times.length - 1] - end) / interval)
}

/** The same error, with what could not be done before it. */
export function about(error: unknown, what: string): unknown {
  if (error instanceof UnfitError) return new SvcError('INVALID_REQUEST', `${what}: ${error.message}`)
  if (error instanceof SvcError && !error.message.startsWith('cannot')) return new SvcError(error.code, `${what}: ${error.message}`, { cause: error })
  return error
}
