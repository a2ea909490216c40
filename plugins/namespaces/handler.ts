/** /api/v1/namespaces and below. */

import {
  AUDIT_LOG,
  type AuditAction,
  type AuditLog,
  type AuditRecord,
  audited,
  type HttpRequest,
  type NamespaceDefinition,
  type NamespaceQuota,
  namespaceProblem,
  REQUEST_LIMITS,
  type RequestLimits,
  type Svc,
} from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { Turn } from 'svcdb/lib/event-loop'
import type { Deletion } from './deletion.ts'
import { type Directory, unknownNamespace } from './directory.ts'
import { limiterProblem, quotaMembers } from './quota.ts'
import type { QuotaGuard } from './quota-guard.ts'

interface Usage {
  series_count: number
  ingestion_rate: number
  storage_bytes: number
  measurements: number
}

type NamespaceRecord = NamespaceDefinition & { usage: Usage }

export class NamespacesHandler {
  private readonly svc: Svc
  private readonly directory: Directory
  private readonly guard: QuotaGuard
  private readonly deletion: Deletion

  constructor(svc: Svc, directory: Directory, guard: QuotaGuard, deletion: Deletion) {
    this.svc = svc
    this.directory = directory
    this.guard = guard
    this.deletion = deletion
  }

  async create(request: HttpRequest): Promise<NamespaceRecord> {
    const { name, description = '', owner = 'admin' } = request.body as { name: string; description?: string; owner?: string }
    const problem = namespaceProblem(name)
    if (problem !== undefined) throw new SvcError('INVALID_REQUEST', problem)
    if (this.directory.get(name) !== undefined)
      throw new SvcError('CONFLICT', `cannot create namespace "${name}": it exists; PUT /api/v1/namespaces/${name}/quota changes its quota`)
    const quota = quotaIn(request)
    this.requireLimiter(quota)
    await audited(this.auditLog, this.entry(request, 'namespace_create', name, quota), () =>
      this.directory.create({ name, description, owner, auto: false, quota }),
    )
    return this.shown(this.known(name))
  }

  /** A page of them: what each holds is looked up, which takes the longer the more measurements it has. */
  async list({ query }: HttpRequest): Promise<{ namespaces: NamespaceRecord[]; count: number; offset: number; limit: number }> {
    const { offset, limit } = query as { offset: number; limit: number }
    const { count } = this.directory
    const records: Promise<NamespaceRecord>[] = []
    const turn = new Turn()
    for (const definition of this.directory.page(offset, limit)) {
      if (turn.isOver) await turn.next()
      // Not one after the other: an engine that is a system of its own is asked for each.
      const record = this.shown(definition)
      record.catch(() => {}) // until all are waited for
      records.push(record)
    }
    const namespaces = await Promise.all(records)
    return { namespaces, count, offset, limit }
  }

  async get(request: HttpRequest): Promise<NamespaceRecord> {
    const name = nameIn(request)
    await this.directory.arrived(name)
    return this.shown(this.known(name))
  }

  async usage(request: HttpRequest): Promise<{ name: string; usage: Usage; quota: NamespaceQuota }> {
    const { namespaces } = this.svc.context(request)
    if (namespaces.length > 0 && !namespaces.includes(nameIn(request))) throw unknownNamespace(nameIn(request))
    const { name, usage, quota } = await this.get(request)
    return { name, usage, quota }
  }

  async setQuota(request: HttpRequest): Promise<NamespaceRecord> {
    const name = nameIn(request)
    this.known(name)
    const quota = quotaIn(request)
    this.requireLimiter(quota)
    await audited(this.auditLog, this.entry(request, 'quota_change', name, quota), () => this.directory.setQuota(name, quota))
    return this.shown(this.known(name))
  }

  async delete(request: HttpRequest): Promise<{ ok: true; message: string }> {
    const name = nameIn(request)
    await this.deletion.delete(name, () => this.auditLog?.record(this.entry(request, 'namespace_delete', name)))
    const what = this.svc.server.multi_tenancy ? 'with its data' : 'its data is kept: the server does not keep namespaces apart'
    return { ok: true, message: `namespace "${name}" is deleted, ${what}` }
  }

  /** @throws INVALID_REQUEST for limits that nothing would enforce. */
  private requireLimiter(quota: Partial<NamespaceQuota>): void {
    const problem = limiterProblem(quota, this.svc.find<RequestLimits>(REQUEST_LIMITS))
    if (problem !== undefined) throw new SvcError('INVALID_REQUEST', `cannot set "max_request_rps": ${problem}`)
  }

  private known(name: string): NamespaceDefinition {
    const definition = this.directory.get(name)
    if (definition === undefined) throw unknownNamespace(name)
    return definition
  }

  private async shown(definition: NamespaceDefinition): Promise<NamespaceRecord> {
    const { series, measurements, bytes, rate } = await this.guard.usage(definition.name)
    return { ...definition, usage: { series_count: series, ingestion_rate: rate, storage_bytes: bytes, measurements } }
  }

  private get auditLog(): AuditLog | undefined {
    return this.svc.find<AuditLog>(AUDIT_LOG)
  }

  private entry(request: HttpRequest, action: AuditAction, resource: string, quota: Partial<NamespaceQuota> = {}): AuditRecord {
    const metadata = Object.fromEntries(Object.entries(quota).map(([member, value]) => [member, String(value)]))
    return { action, resource, decision: 'allow', by: this.svc.context(request), metadata }
  }
}

function nameIn({ params }: HttpRequest): string {
  return (params as { name: string }).name
}

/** @throws INVALID_REQUEST when a bound is given twice. */
function quotaIn({ body }: HttpRequest): Partial<NamespaceQuota> {
  const { max_series: alias, ...given } = body as Record<string, number | undefined>
  if (alias !== undefined) {
    if (given.max_series_count !== undefined && given.max_series_count !== alias)
      throw new SvcError('INVALID_REQUEST', 'cannot set "max_series" and "max_series_count": they are one bound; give one of them')
    given.max_series_count = alias
  }
  return quotaMembers(given)
}
