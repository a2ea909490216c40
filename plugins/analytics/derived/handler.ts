/** /api/v1/analytics/derived and below. */
import type { Readable } from 'node:stream'
import { AUDIT_LOG, type AuditAction, type AuditLog, audited, type HttpRequest, type Svc } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { jsonDigits, jsonListing } from 'svcdb/lib/json'
import type { Derived, DerivedSeries } from './derived-series.ts'

interface CreateBody {
  name: string
  query: string
  target_measurement?: string
  every_secs?: number
  lookback_secs?: number
}

export class DerivedHandler {
  private readonly svc: Svc
  private readonly series: DerivedSeries

  constructor(svc: Svc, series: DerivedSeries) {
    this.svc = svc
    this.series = series
  }

  async create(request: HttpRequest): Promise<string> {
    const { svc } = this
    const context = svc.context(request)
    const { name, query, target_measurement: target = name, every_secs = 60, lookback_secs = 3600 } = request.body as CreateBody
    // What it reads is shown to whoever reads the target.
    await svc.auth.authorize(context, 'read', '/api/v1/analytics/derived')
    const kept = { namespace: context.dataNamespace, name, query, target, every_secs, lookback_secs, created_at: svc.clock.now() }
    return JSON.stringify(shown(await this.audited(request, 'derived_create', name, () => this.series.create(kept, svc.stopping))))
  }

  list(request: HttpRequest): Readable {
    const all = this.series.list(this.svc.context(request).dataNamespace)
    return jsonListing('{"derived":[', all, shown, `],"count":${all.length}}`)
  }

  async delete(request: HttpRequest): Promise<{ ok: true; message: string }> {
    const { name } = request.params as { name: string }
    const derived = this.series.get(this.svc.context(request).dataNamespace, name)
    if (derived === undefined)
      throw new SvcError(
        'NOT_FOUND',
        `cannot delete derived series "${name.slice(0, 128)}": there is none of this name; GET /api/v1/analytics/derived lists them`,
      )
    await this.audited(request, 'derived_delete', name, () => this.series.delete(derived))
    return { ok: true, message: `derived series "${name}" is deleted; measurement "${derived.kept.target}" stays` }
  }

  private audited<T>(request: HttpRequest, action: AuditAction, resource: string, act: () => Promise<T>): Promise<T> {
    return audited(this.svc.find<AuditLog>(AUDIT_LOG), { action, resource, decision: 'allow', by: this.svc.context(request) }, act)
  }
}

function shown({ kept, lastError }: Derived): object {
  const { name, query, target, every_secs, lookback_secs, created_at, evaluated_until } = kept
  return {
    ...{ name, query, target_measurement: target, every_secs, lookback_secs, created_at },
    evaluated_until: evaluated_until === undefined ? null : jsonDigits(evaluated_until),
    last_error: lastError ?? null,
  }
}
