/** Models in use: trained, followed over what comes, compared, replaced, and asked for forecasts. */
import { isWithinReach, NAMESPACES, type NamespaceDirectory } from 'svcdb'
import { classify, SvcError } from 'svcdb/lib/errors'
import { Creations } from '../creations.ts'
import type { DetectResult, FollowResult } from './compute.ts'
import type { Definition } from './definition.ts'
import { type ModelFigures, observe } from './metrics.ts'
import type { ReadSeries } from './read-job.ts'
import { challengerOf, championOf, type KeptModel, LEAST_COMPARED, promoted, retired, type Version, verdict, withAsked, withDone, withLook } from './record.ts'
import type { ModelEntry } from './registry.ts'
import { AgedError, about, type Call, type Selection, Work, type WorkDependencies } from './work.ts'
import { requireWritable, writeForecast } from './written-forecast.ts'

/** Samples that a score above it calls an anomaly. */
const ANOMALY = 3
/** A trained error of 0 is exceeded by any. */
const MOST_DRIFT = 1e6
const FIGURES_MS = 20

export class Models {
  private readonly dependencies: WorkDependencies
  private readonly work: Work
  /** What is done with each model, one after the other. */
  private readonly chains = new WeakMap<ModelEntry, Promise<unknown>>()
  private readonly aborts = new WeakMap<ModelEntry, AbortController>()
  private readonly training = new Set<ModelEntry>()
  private lastFigures: { at: number; figures: ModelFigures } | undefined
  private readonly background = new Set<Promise<unknown>>()
  private readonly creations: Creations
  /** Trainings that are not done, by when that was seen first, milliseconds of the monotonic clock. */
  private pending: ReadonlyMap<ModelEntry, number> = new Map()
  /** What there was when a model was looked at last. */
  private readonly looked = new WeakMap<ModelEntry, string>()
  /** What was logged last of models that fail: where the record cannot be written, it does not have it. */
  private readonly logged = new WeakMap<ModelEntry, string>()
  /** When an aged model was last tried to be trained again, milliseconds of the monotonic clock. */
  private readonly renewed = new WeakMap<ModelEntry, number>()

  constructor(dependencies: WorkDependencies) {
    this.dependencies = dependencies
    this.work = new Work(dependencies)
    this.creations = new Creations(dependencies.svc)
  }

  /** @throws CONFLICT, RATE_LIMITED, and what is wrong with the samples. */
  async create(definition: Definition, quotaOf: string, call: Call): Promise<ModelEntry> {
    const { registry, svc } = this.dependencies
    const check = () => registry.check(definition, this.quota(quotaOf), quotaOf)
    check()
    try {
      return await this.creations.run(definition.namespace, call.signal, async (signal, requireThere) => {
        const { trained, found, tags } = await this.work.train(definition, { ...call, signal }, false)
        await requireWritable(svc, { ...definition, tags }, trained.end + trained.interval)
        requireThere()
        return await registry.create({ ...definition, tags }, trained, { found, now: svc.clock.now(), check })
      })
    } catch (error) {
      throw about(error, `cannot create model "${definition.name}" on "${definition.measurement}"`)
    }
  }

  isTraining(entry: ModelEntry): boolean {
    return this.training.has(entry)
  }

  /** The namespace is deleted: nothing may be left of it. */
  async forgetNamespace(namespace: string): Promise<void> {
    await this.creations.end(namespace)
    for (const entry of this.dependencies.registry.list(namespace)) await this.delete(entry)
  }

  async delete(entry: ModelEntry): Promise<void> {
    this.aborts.get(entry)?.abort(new SvcError('NOT_FOUND', 'the model was deleted meanwhile'))
    await this.alone(entry, async () => {
      await this.dependencies.registry.delete(entry)
    })
  }

  /** Notes that models are to be trained again, and begins. Durable when it resolves. */
  async retrain(entries: readonly ModelEntry[]): Promise<void> {
    const { registry, metrics, svc } = this.dependencies
    await Promise.all(entries.map((entry) => registry.update(entry, (kept) => withAsked(kept, svc.clock.now()))))
    metrics.batches.inc()
    const began = svc.clock.monotonic()
    this.inBackground(Promise.all(entries.map((entry) => this.retrainNow(entry))).then(() => metrics.batchFit.observe((svc.clock.monotonic() - began) / 1000)))
  }

  /** Trainings that a stop has interrupted. */
  resume(): void {
    for (const entry of this.dependencies.registry.all()) if (entry.kept.retrain) this.inBackground(this.retrainNow(entry))
  }

  async stop(): Promise<void> {
    await Promise.allSettled([...this.background])
  }

  /** From the newest sample on. @throws NOT_FOUND without a version of the number. */
  async forecast(
    entry: ModelEntry,
    options: { horizon: number; level: number; version: number | undefined },
    call: Call,
  ): Promise<{ version: Version; found: FollowResult }> {
    const { definition, versions } = entry.kept
    const version = options.version === undefined ? championOf(entry.kept) : versions.find((each) => each.version === options.version)
    const what = `cannot forecast by model "${definition.name}" on "${definition.measurement}"`
    if (version === undefined)
      throw new SvcError('NOT_FOUND', `${what}: it has no version ${options.version}; it has ${versions.map((each) => each.version).join(', ')}`)
    try {
      const found = await this.dependencies.threads.turn({ ...call, namespace: definition.namespace }, async (run) =>
        this.work.followed(run, entry, [version], { ...options, scoresAfter: undefined, since: BigInt(version.training_end) }, call.signal),
      )
      return { version, found }
    } catch (error) {
      throw about(error, what)
    }
  }

  async detect(
    selection: Selection,
    { detector, threshold, most }: { detector: string; threshold: number | undefined; most: number },
    call: Call,
  ): Promise<{ series: ReadSeries; found: DetectResult; points: number }> {
    const { threads, metrics, svc } = this.dependencies
    const began = svc.clock.monotonic()
    try {
      return await threads.turn({ ...call, namespace: selection.namespace }, async (run) => {
        const series = await this.work.read(selection, call.signal)
        const found = await run({ kind: 'detect', times: series.times, columns: series.columns, detector, threshold, most })
        observe(metrics, { correlation: found.seconds.correlation })
        if (found.seconds.fit !== undefined) metrics.anomalyFit.observe(found.seconds.fit)
        const seconds = (svc.clock.monotonic() - began) / 1000
        ;(selection.fields.length > 1 ? metrics.manyDetect : metrics.anomalyDetect).observe(seconds)
        metrics.anomalies.inc(found.found)
        return { series, found, points: series.times.length }
      })
    } catch (error) {
      throw about(error, `cannot detect anomalies in "${selection.measurement}"`)
    }
  }

  /** One round over all models: writes forecasts that are due, looks for drift, and takes up trainings that nobody does. */
  async watch(signal: AbortSignal): Promise<void> {
    const all = [...this.dependencies.registry.all()]
    const entries = all.filter(({ kept }) => !kept.retrain)
    this.takeUp(all.filter(({ kept }) => kept.retrain))
    let at = 0
    const worker = async (): Promise<void> => {
      while (at < entries.length && !signal.aborted) await this.look(entries[at++], signal)
    }
    await Promise.all(Array.from({ length: this.dependencies.config.compute_threads }, worker))
    signal.throwIfAborted()
  }

  /** A training that was asked for and is not done for so long was that of a node that has ended. */
  private takeUp(pending: readonly ModelEntry[]): void {
    const { svc, config } = this.dependencies
    const now = svc.clock.monotonic()
    const since = new Map(pending.map((entry) => [entry, this.pending.get(entry) ?? now]))
    this.pending = since
    for (const [entry, from] of since) {
      if (now - from < config.training_timeout_secs * 1000 || this.training.has(entry)) continue
      since.set(entry, now)
      this.inBackground(this.retrainNow(entry))
    }
  }

  /** Of this moment, or nearly: a scrape asks once for each gauge. */
  figures(): ModelFigures {
    const now = this.dependencies.svc.clock.monotonic()
    if (this.lastFigures === undefined || now - this.lastFigures.at > FIGURES_MS) this.lastFigures = { at: now, figures: this.figuresNow() }
    return this.lastFigures.figures
  }

  private figuresNow(): ModelFigures {
    const { registry, threads, svc } = this.dependencies
    const all = [...registry.all()].map(({ kept }) => kept)
    const champions = all.flatMap((kept) => championOf(kept) ?? [])
    const tested = all.flatMap((kept) => {
      const [champion, challenger] = [championOf(kept)?.after?.mape, challengerOf(kept)?.after?.mape]
      return typeof champion === 'number' && typeof challenger === 'number' ? [{ champion, challenger }] : []
    })
    return {
      models: all.length,
      worstDrift: all.reduce((most, { drift_score = 0 }) => Math.max(most, drift_score), 0),
      mape: mean(champions.flatMap(({ after }) => after?.mape ?? [])),
      rmse: mean(champions.flatMap(({ after }) => after?.rmse ?? [])),
      oldestSecs: champions.reduce((most, { created_at }) => Math.max(most, (svc.clock.now() - created_at) / 1000), 0),
      championMape: mean(tested.map(({ champion }) => champion)),
      challengerMape: mean(tested.map(({ challenger }) => challenger)),
      waiting: threads.queued,
      running: threads.running,
    }
  }

  /** Never rejects: what goes wrong is in the record. */
  private look(entry: ModelEntry, signal: AbortSignal): Promise<void> {
    return this.alone(entry, async (abort) => {
      if (!entry.alive || !isWithinReach(entry.kept.definition.namespace, this.dependencies.svc.server.multi_tenancy)) return
      const call: Call = { signal: AbortSignal.any([signal, abort]), asked: false }
      await this.reported(entry, call.signal, () => this.lookNow(entry, call))
    })
  }

  private async lookNow(entry: ModelEntry, call: Call): Promise<void> {
    const { threads, registry, metrics, config, svc } = this.dependencies
    const { definition, forecast_at = 0, scored_until, looked_until } = entry.kept
    const [champion, challenger] = [championOf(entry.kept), challengerOf(entry.kept)]
    if (champion === undefined) return
    const now = svc.clock.now()
    const job = definition.forecast
    const due = job !== undefined && hasPassed(forecast_at, job.every_secs, now)
    const newest = due ? undefined : await this.work.newest(definition, champion, call.signal)
    const state = `${champion.version} ${challenger?.version} ${newest}`
    if (!due && (newest === undefined || this.looked.get(entry) === state)) return
    const versions = challenger === undefined ? [champion] : [champion, challenger]
    // What both have not seen in their training.
    const since = versions.map((each) => BigInt(each.training_end)).reduce((latest, end) => (end > latest ? end : latest))
    const asked = {
      horizon: due ? job.horizon : 0,
      level: job?.level ?? 0.95,
      since,
      scoresAfter: due ? BigInt(scored_until ?? champion.training_end) : undefined,
      young: this.mayRenew(entry),
      movedAfter: BigInt(looked_until ?? champion.training_end),
    }
    let found: FollowResult
    try {
      found = await threads.turn({ ...call, namespace: definition.namespace }, (run) => this.work.followed(run, entry, versions, asked, call.signal))
    } catch (error) {
      if (!(error instanceof AgedError)) throw error
      return this.renew(entry, call)
    }
    // What cannot be written says nothing of the model: how well it does is looked at all the same.
    let written: Partial<KeptModel> = {}
    let failure: unknown
    if (due) {
      try {
        written = { forecast_at: now, ...(await this.writeDue(entry, found)) }
      } catch (error) {
        failure = error
      }
    }
    const accuracies = new Map(versions.map(({ version }, i) => [version, found.versions[i].accuracy]))
    const { points, rmse } = found.versions[0].accuracy
    const drift = driftOf(champion, rmse, points >= LEAST_COMPARED)
    await registry.update(entry, (kept) => withLook({ ...kept, ...written }, { newest: found.newest, drift, accuracies }))
    if (points >= config.drift_points) {
      if (challenger !== undefined) await this.judge(entry, rmse, found.versions[1].accuracy.rmse)
      const drifted = drift !== undefined && drift > config.drift_threshold
      if (drifted && hasPassed(entry.kept.refit_at ?? 0, config.refit_pause_secs, now)) {
        metrics.drifts.inc()
        await this.refit(entry, champion, call)
      }
    }
    if (failure !== undefined) throw failure
    if (!due) this.looked.set(entry, state)
  }

  /** Writes a forecast that is due. @returns what of the record changes. */
  private async writeDue(entry: ModelEntry, found: FollowResult): Promise<Partial<KeptModel>> {
    const { svc, metrics } = this.dependencies
    const { points, until } = await writeForecast(svc, entry, found)
    metrics.forecastPoints.inc(points)
    const written = until === undefined ? {} : { written_until: String(until) }
    if (found.scores === undefined || found.scores.times.length === 0) return written
    metrics.anomalies.inc(found.scores.values.filter((score) => score > ANOMALY).length)
    return { ...written, scored_until: String(found.scores.times[found.scores.times.length - 1]) }
  }

  /** What is trained on a range that has an end is the same again. */
  private mayRenew(entry: ModelEntry): boolean {
    const { config, svc } = this.dependencies
    const tried = this.renewed.get(entry) ?? Number.NEGATIVE_INFINITY
    return entry.kept.definition.range.end === undefined && svc.clock.monotonic() - tried >= config.refit_pause_secs * 1000
  }

  /** Trains a model again whose Champion soon cannot be followed any more; what it was compared with is of before. */
  private async renew(entry: ModelEntry, call: Call): Promise<void> {
    const { registry, metrics, svc } = this.dependencies
    const { definition } = entry.kept
    this.renewed.set(entry, svc.clock.monotonic())
    const { trained, found } = await this.work.train(definition, call)
    metrics.refits.inc()
    if (!entry.alive) return
    await registry.putVersion(entry, trained, { found, now: svc.clock.now(), asChampion: true, change: forgetting })
    this.renewed.delete(entry)
    svc.log.info({ model: definition.name, measurement: definition.measurement }, 'a model is trained again: much has come since its last training')
  }

  /** Whether the Challenger takes the Champion's place: both have forecast the same samples. */
  private async judge(entry: ModelEntry, champion: number, challenger: number): Promise<void> {
    const { registry, config, svc } = this.dependencies
    const { definition } = entry.kept
    const found = verdict(champion, challenger, config.min_gain)
    if (found === undefined) return
    const wins = found === 'wins'
    await registry.update(entry, wins ? (kept) => forgetting(promoted(kept)) : retired)
    svc.log.info(
      { model: definition.name, measurement: definition.measurement, champion, challenger },
      wins ? 'the Challenger is the Champion now' : 'the Challenger has lost',
    )
  }

  /** Fits a model anew that has drifted: the new version takes its place if it would have been better on what came after. */
  private async refit(entry: ModelEntry, champion: Version, call: Call): Promise<void> {
    const { threads, registry, metrics, config, svc } = this.dependencies
    const { definition } = entry.kept
    const { result, found } = await threads.turn({ ...call, namespace: definition.namespace }, async (run) => {
      const series = await this.work.read(this.work.selectionOf(definition), call.signal)
      const samples = { times: series.times, values: series.columns[0] }
      const task = {
        kind: 'refit',
        samples,
        spec: this.work.specOf(definition),
        champion: await this.work.standing(entry, champion),
        most: config.max_training_points,
      } as const
      return { result: await run(task), found: series.found }
    })
    observe(metrics, result.seconds)
    metrics.refits.inc()
    const { compared, trained } = result
    const now = svc.clock.now()
    const pays = compared !== undefined && compared.challenger.rmse < compared.champion.rmse * (1 - config.min_gain)
    const figures = { model: definition.name, measurement: definition.measurement, champion: compared?.champion.rmse, refitted: compared?.challenger.rmse }
    svc.log.info(figures, pays ? 'a model that had drifted is replaced' : 'a model has drifted, and fitting it again would not have been better')
    const noted = (kept: KeptModel): KeptModel => ({ ...kept, refit_at: now })
    if (!entry.alive) return
    if (pays) await registry.putVersion(entry, trained, { found, now, asChampion: true, change: (kept) => noted(forgetting(kept)) })
    else await registry.update(entry, noted)
  }

  private retrainNow(entry: ModelEntry): Promise<void> {
    return this.alone(entry, async (abort) => {
      const { registry, metrics, svc } = this.dependencies
      const asked = entry.kept.retrain
      if (!entry.alive || asked === undefined) return
      const signal = AbortSignal.any([svc.stopping, abort])
      this.training.add(entry)
      const done = (kept: KeptModel) => withDone(kept, asked)
      try {
        const { trained, found } = await this.work.train(entry.kept.definition, { signal, asked: false })
        metrics.refits.inc()
        if (entry.alive) await registry.putVersion(entry, trained, { found, now: svc.clock.now(), asChampion: false, change: done })
      } catch (error) {
        // Interrupted: it is begun again when the node has started.
        if (signal.aborted) return
        // What was asked for is done when there is room again.
        const waits = classify(error).code === 'STORAGE_FULL'
        await this.failed(entry, error, (kept) => (waits ? kept : (done(kept) ?? kept)))
      } finally {
        this.training.delete(entry)
      }
    })
  }

  private quota(namespace: string): number {
    return this.dependencies.svc.find<NamespaceDirectory>(NAMESPACES)?.get(namespace)?.quota.max_models ?? 0
  }

  /** One task at a time on each model. */
  private alone<T>(entry: ModelEntry, body: (abort: AbortSignal) => Promise<T>): Promise<T> {
    const run = async (): Promise<T> => {
      const controller = new AbortController()
      this.aborts.set(entry, controller)
      try {
        return await body(controller.signal)
      } finally {
        this.aborts.delete(entry)
      }
    }
    const done = (this.chains.get(entry) ?? Promise.resolve()).then(run)
    this.chains.set(
      entry,
      done.catch(() => {}),
    )
    return done
  }

  private async reported(entry: ModelEntry, signal: AbortSignal, work: () => Promise<void>): Promise<void> {
    try {
      await work()
      this.logged.delete(entry)
      if (entry.kept.last_error === undefined) return
      await this.dependencies.registry.update(entry, ({ last_error: _, ...kept }) => kept)
    } catch (error) {
      if (!signal.aborted) await this.failed(entry, error, (kept) => kept)
    }
  }

  private async failed(entry: ModelEntry, error: unknown, change: (kept: KeptModel) => KeptModel): Promise<void> {
    const { metrics, registry, svc } = this.dependencies
    metrics.failures.inc()
    const { name, measurement } = entry.kept.definition
    const text = classify(about(error, `cannot keep model "${name}" on "${measurement}" up to date`)).message
    const isNew = entry.kept.last_error !== text && this.logged.get(entry) !== text
    this.logged.set(entry, text)
    if (isNew) svc.log.warn({ err: error, model: name, measurement }, 'a model cannot be kept up to date; it is tried again')
    try {
      await registry.update(entry, (kept) => ({ ...change(kept), last_error: text }))
    } catch (err) {
      if (isNew) svc.log.error({ err, model: name, measurement }, 'cannot keep what went wrong with a model')
    }
  }

  private inBackground(work: Promise<unknown>): void {
    const watched = work.catch((err: unknown) => this.dependencies.svc.log.error({ err }, 'a training failed'))
    this.background.add(watched)
    void watched.finally(() => this.background.delete(watched))
  }
}

/** What is known of a Champion that is none any more says nothing of the next. */
function forgetting({ drift_score: _, ...kept }: KeptModel): KeptModel {
  return kept
}

/** A time that lies ahead was noted by a clock that was wrong. */
function hasPassed(since: number, secs: number, now: number): boolean {
  return since > now || now - since >= secs * 1000
}

function driftOf(champion: Version, rmse: number, enough: boolean): number | undefined {
  if (!enough || !Number.isFinite(rmse)) return undefined
  const trained = champion.metrics.rmse ?? 0
  return rmse === 0 ? 0 : Math.min(MOST_DRIFT, rmse / Math.max(trained, Number.MIN_VALUE))
}

const mean = (values: readonly number[]): number => values.reduce((sum, v) => sum + v, 0) / values.length
