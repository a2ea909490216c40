/** The audit log of authentication decisions: which are written, and where. */
import { join } from 'node:path'
import type { CallContext, Decision, Svc } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { AuditLog } from './audit-log.ts'
import { type AuditSink, FileSink, StdoutSink } from './audit-sink.ts'
import type { CatalogConfig } from './config.ts'
import { type AuthEntry, type AuthorizationEntry, authEntry, authorizationEntry } from './decision-entry.ts'
import type { CatalogMetrics } from './metrics.ts'
import { isCatalogResource } from './paths.ts'

const FILE = 'auth/catalog-audit.jsonl'

export class Audit {
  private readonly svc: Svc
  private readonly config: CatalogConfig
  private readonly metrics: CatalogMetrics
  private readonly log: AuditLog

  constructor(svc: Svc, config: CatalogConfig, metrics: CatalogMetrics) {
    this.svc = svc
    this.config = config
    this.metrics = metrics
    this.log = new AuditLog({ failClosed: config.fail_closed, maxWaiting: config.audit_queue_entries, log: svc.log, metrics })
  }

  /** Entries that are not written yet. */
  get depth(): number {
    return this.log.depth
  }

  /** Call it in setup. */
  attach(): void {
    const { svc, config } = this
    if (config.audit_sink === 'none') return
    svc.auth.observer((decision) => this.observe(decision))
    svc.start(async () => this.log.start(await this.openSink()))
    svc.stop(() => this.log.stop())
  }

  /** A call to a path that is exempt from authentication, and that the catalog refuses by itself. @throws SvcError with fail_closed, when it cannot be written. */
  async refusedAnonymous({ address, requestId }: CallContext): Promise<void> {
    if (this.config.audit_sink === 'none') return
    const timestamp = new Date(this.svc.clock.now()).toISOString()
    await this.write({ timestamp, event: 'auth_failure', ip: address ?? null, request_id: requestId, reason: 'missing_credentials' })
  }

  private observe(decision: Decision): Promise<void> | undefined {
    const { config } = this
    return config.audit_scope === 'catalog' && !isCatalogResource(decision.resource) ? undefined : this.writeDecision(decision)
  }

  private async writeDecision(decision: Decision): Promise<void> {
    const now = this.svc.clock.now()
    const namespace = this.svc.server.multi_tenancy ? decision.context?.namespace : undefined
    const entries: Promise<void>[] = [this.write(authEntry(decision, now), namespace)]
    if (this.config.audit_authorization) {
      const entry = authorizationEntry(decision, now)
      if (entry !== undefined) entries.push(this.write(entry, namespace))
    }
    await Promise.all(entries)
  }

  private write(entry: AuthEntry | AuthorizationEntry, namespace?: string): Promise<void> {
    this.metrics.entries.inc({ event: entry.event })
    return this.log.record(entry, namespace)
  }

  private async openSink(): Promise<AuditSink> {
    const { config, svc } = this
    if (config.audit_sink === 'stdout') return new StdoutSink()
    const path = config.audit_path ?? (svc.dataDir === undefined ? undefined : join(svc.dataDir, FILE))
    if (path === undefined)
      throw new SvcError('CONFIG_ERROR', 'cannot use catalog_auth.audit_sink "file": the storage keeps no files on this machine; set catalog_auth.audit_path')
    try {
      return await FileSink.open(path, config.audit_file_max_bytes, config.audit_files_kept)
    } catch (cause) {
      throw new SvcError(
        'IO_ERROR',
        `cannot open the audit log "${path}": ${(cause as Error).message}; set catalog_auth.audit_path to a file that can be written`,
        { cause },
      )
    }
  }
}
