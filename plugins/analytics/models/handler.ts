/** /api/v1/admin/analytics/models and below, /api/v1/admin/analytics/retrain, /api/v1/analytics. */
import type { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import { AUDIT_LOG, type AuditAction, type AuditLog, audited, type HttpRequest, type Svc } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { jsonDigits, jsonListing } from 'svcdb/lib/json'
import type { AnalyticsConfig } from '../config.ts'
import { type CreateBody, definitionOf } from './definition.ts'
import { kindOf } from './kind-names.ts'
import type { Models } from './models.ts'
import { championOf, type Version } from './record.ts'
import type { ModelEntry, Registry } from './registry.ts'
import type { Call } from './work.ts'

const LISTED = 'GET /api/v1/admin/analytics/models lists those there are'
const digits = (text: string | undefined): unknown => (text === undefined ? null : jsonDigits(text))

interface HandlerDependencies {
  svc: Svc
  config: AnalyticsConfig
  registry: Registry
  models: Models
  custom: ReadonlyMap<string, URL>
}

export class ModelsHandler {
  private readonly dependencies: HandlerDependencies

  constructor(dependencies: HandlerDependencies) {
    this.dependencies = dependencies
  }

  async create(request: HttpRequest, reply: FastifyReply): Promise<string> {
    const { svc, config, models, custom } = this.dependencies
    const body = request.body as CreateBody
    const { dataNamespace, namespace } = svc.context(request)
    const definition = definitionOf(body, dataNamespace, { custom: [...custom.keys()], maxHorizon: config.max_forecast_horizon })
    const entry = await this.audited(request, 'model_create', `${body.measurement}/${body.name}`, () => models.create(definition, namespace, this.call(reply)))
    return this.detail(entry)
  }

  list(request: HttpRequest): Readable {
    const { measurement } = request.query as { measurement?: string }
    const found = this.dependencies.registry.list(this.namespace(request), measurement)
    return jsonListing('{"models":[', found, (entry) => this.summary(entry), `],"count":${found.length}}`)
  }

  get(request: HttpRequest): Promise<string> {
    return this.detail(this.known(request, 'show'))
  }

  async delete(request: HttpRequest): Promise<{ ok: true; message: string }> {
    const entry = this.known(request, 'delete')
    const { measurement, name } = entry.kept.definition
    await this.audited(request, 'model_delete', `${measurement}/${name}`, () => this.dependencies.models.delete(entry))
    return { ok: true, message: `model "${name}" on "${measurement}" is deleted` }
  }

  async retrain(request: HttpRequest, reply: FastifyReply): Promise<{ accepted: boolean; models_queued: number; message: string }> {
    const { measurement, model_name: name } = request.body as { measurement: string; model_name?: string }
    const all = this.dependencies.registry.list(this.namespace(request), measurement)
    const entries = name === undefined ? all : all.filter(({ kept }) => kept.definition.name === name)
    if (entries.length === 0) {
      const what = name === undefined ? `"${measurement}" has no models` : `"${measurement}" has no model "${name}"`
      return { accepted: false, models_queued: 0, message: `${what}; ${LISTED}` }
    }
    await this.audited(request, 'model_retrain', name === undefined ? measurement : `${measurement}/${name}`, () => this.dependencies.models.retrain(entries))
    reply.code(202)
    return { accepted: true, models_queued: entries.length, message: `${entries.length === 1 ? 'one model is' : `${entries.length} models are`} trained again` }
  }

  async forecast(request: HttpRequest, reply: FastifyReply): Promise<string> {
    const { config, models } = this.dependencies
    const entry = this.known(request, 'forecast by')
    const { horizon, level, version } = request.query as { horizon: number; level: number; version?: number }
    const { measurement, name } = entry.kept.definition
    if (horizon > config.max_forecast_horizon)
      throw new SvcError(
        'INVALID_REQUEST',
        `cannot forecast by model "${name}" on "${measurement}": the horizon is ${horizon}, and analytics.max_forecast_horizon is ${config.max_forecast_horizon}`,
      )
    const answer = await this.audited(request, 'forecast', `${measurement}/${name}`, () =>
      models.forecast(entry, { horizon, level, version }, this.call(reply)),
    )
    const { forecast } = answer.found
    return JSON.stringify({
      ...{ name, measurement, version: answer.version.version },
      values: numbers(forecast?.values),
      timestamps: Array.from(forecast?.timestamps ?? [], (time) => jsonDigits(time)),
      confidence_lower: numbers(forecast?.lower),
      confidence_upper: numbers(forecast?.upper),
      confidence_level: level,
      interval_ns: digits(answer.version.interval),
    })
  }

  async anomalies(request: HttpRequest, reply: FastifyReply): Promise<string> {
    const body = request.body as {
      measurement: string
      field?: string
      fields?: string[]
      tags?: Record<string, string>
      detector?: string
      threshold?: number
      start?: number | string
      end?: number | string
      limit?: number
    }
    const { measurement, field, fields = field === undefined ? [] : [field], tags = {}, threshold, limit = 1000 } = body
    const refuse = (cause: string) => new SvcError('INVALID_REQUEST', `cannot detect anomalies in "${measurement}": ${cause}`)
    if (fields.length === 0 || (field !== undefined && body.fields !== undefined))
      throw refuse('give either field, such as "usage", or fields, such as ["usage", "load"]')
    const { detector = fields.length > 1 ? 'mahalanobis' : 'zscore' } = body
    const [start, end] = [body.start, body.end].map((each) => (each === undefined ? undefined : BigInt.asIntN(64, BigInt(each))))
    if (start !== undefined && end !== undefined && start >= end) throw refuse(`its range ends at ${end}, not after its start ${start}`)
    const range = { ...(start === undefined ? {} : { start }), ...(end === undefined ? {} : { end }) }
    const selection = { namespace: this.namespace(request), measurement, fields, tags, ...range }
    const { series, found, points } = await this.audited(request, 'detect_anomalies', measurement, () =>
      this.dependencies.models.detect(selection, { detector, threshold, most: limit }, this.call(reply)),
    )
    return JSON.stringify({
      ...{
        measurement,
        fields,
        tags: series.tags,
        detector,
        threshold: found.threshold,
        points,
        left_out_points: series.found - points,
        sampled: series.found > points,
        anomaly_count: found.found,
      },
      anomalies: Array.from(found.rows, (row, i) => ({
        timestamp: jsonDigits(series.times[row]),
        values: series.columns.map((column) => finite(column[row])),
        score: finite(found.scores[i]),
      })),
      truncated: found.found > found.rows.length,
      ...(found.correlations === undefined ? {} : { correlations: found.correlations.map((row) => row.map(finite)) }),
    })
  }

  private summary(entry: ModelEntry): object {
    const { definition, drift_score, last_error } = entry.kept
    const { name, measurement, field, tags, model } = definition
    const champion = championOf(entry.kept)
    const status = entry.kept.retrain || this.dependencies.models.isTraining(entry) ? 'training' : last_error === undefined ? 'ready' : 'failing'
    return {
      ...{ name, measurement, field, tags, model_type: kindOf(model), version: champion?.version ?? 0, training_points: champion?.training_points ?? 0 },
      ...{ mse: champion?.metrics.mse ?? null, mae: champion?.metrics.mae ?? null, r_squared: champion?.metrics.r_squared ?? null },
      ...{ status, drift_score: drift_score ?? null },
    }
  }

  private async detail(entry: ModelEntry): Promise<string> {
    const { definition, created_at, versions, last_error, written_until } = entry.kept
    const { parameters, range, forecast } = definition
    const champion = championOf(entry.kept)
    // What is not what was stored is said by the forecast that needs it: a record can be looked at all the same.
    const state = champion === undefined ? undefined : await this.dependencies.registry.readState(entry, champion).catch(() => undefined)
    return JSON.stringify({
      ...this.summary(entry),
      params: parameters,
      range: { start: digits(range.start), end: digits(range.end), last_secs: range.last_secs ?? null },
      forecast:
        forecast === undefined
          ? null
          : {
              ...{ target_measurement: forecast.target, horizon: forecast.horizon, every_secs: forecast.every_secs, level: forecast.level },
              written_until: digits(written_until),
            },
      parameters: state === undefined ? null : rawParameters(state.text),
      created_at,
      training_data_start: digits(champion?.training_start),
      training_data_end: digits(champion?.training_end),
      last_error: last_error ?? null,
      versions: versions.map(shownVersion),
    })
  }

  private known(request: HttpRequest, verb: string): ModelEntry {
    const { measurement, name } = request.params as { measurement: string; name: string }
    const entry = this.dependencies.registry.get(this.namespace(request), measurement, name)
    if (entry === undefined)
      throw new SvcError('NOT_FOUND', `cannot ${verb} model "${name.slice(0, 128)}" on "${measurement.slice(0, 256)}": there is none of this name; ${LISTED}`)
    return entry
  }

  private namespace(request: HttpRequest): string {
    return this.dependencies.svc.context(request).dataNamespace
  }

  /** Ended when nobody waits for the answer any more, and when the node stops. */
  private call(reply: FastifyReply): Call {
    const gone = new AbortController()
    reply.raw.once('close', () => {
      if (!reply.raw.writableFinished) gone.abort(new SvcError('BAD_REQUEST', 'the connection was closed before the answer was there'))
    })
    return { signal: AbortSignal.any([gone.signal, this.dependencies.svc.stopping]), asked: true }
  }

  private audited<T>(request: HttpRequest, action: AuditAction, resource: string, act: () => Promise<T>): Promise<T> {
    const { svc } = this.dependencies
    return audited(svc.find<AuditLog>(AUDIT_LOG), { action, resource, decision: 'allow', by: svc.context(request) }, act)
  }
}

const finite = (v: number): number | null => (Number.isFinite(v) ? v : null)
const numbers = (values: Float64Array | undefined): (number | null)[] => Array.from(values ?? [], finite)

/** Times within are digits. */
function rawParameters(text: string): unknown {
  const state = JSON.parse(text) as unknown
  if (typeof state !== 'object' || state === null) return state
  return Object.fromEntries(
    Object.entries(state).map(([key, value]) => [
      key,
      (key === 'start_ts' || key === 'interval_ns') && /^-?\d+$/.test(String(value)) ? jsonDigits(String(value)) : value,
    ]),
  )
}

function shownVersion(version: Version): object {
  const { training_start, training_end, interval, bridged, left_out, after, candidates, ...plain } = version
  return {
    ...plain,
    training_range: { start: digits(training_start), end: digits(training_end) },
    interval_ns: digits(interval),
    bridged_points: bridged,
    left_out_points: left_out,
    sampled: left_out > 0,
    after: after ?? null,
    ...(candidates === undefined ? {} : { candidates }),
  }
}
