/** The plugin's parts, put together. */

import { AUDIT_LOG, definePlugin, type Plugin } from 'svcdb'
import { Type } from 'svcdb/lib/schema'
import { FileAuditLog } from './audit-log.ts'
import { auditCommand, auditLogPath } from './command.ts'
import { configSchema } from './config.ts'
import { recorder } from './decisions.ts'
import { sealBy } from './entry.ts'
import { type Files, realFiles } from './file.ts'
import { stateOfLog } from './head.ts'
import { keyFrom } from './key.ts'

/** @param files what the audit log is written through; another one in tests. */
export const auditPlugin = (files: Files = realFiles): Plugin =>
  definePlugin({
    id: 'audit',
    summary: 'Keeps a hash-chained audit log of who was let in and refused, and of what was done to the security of the server',
    stability: 'stable',
    config: configSchema,
    capabilities: ['state'],
    provides: [AUDIT_LOG],
    commands: [auditCommand],
    setup(svc, config) {
      const { log, metrics, clock } = svc
      const seal = sealBy(keyFrom(config.hmac_key_env, process.env))
      const path = auditLogPath(config.path, svc.dataDir)
      const auditLog = new FileAuditLog({
        config,
        path,
        seal,
        log,
        metrics,
        clock,
        files,
        apart: svc.server.multi_tenancy,
        state: () => (svc.storage.capabilities.has('shared_state') ? stateOfLog(svc.storage.state(svc.id), path) : svc.storage.state(svc.id)),
      })
      const recordOf = recorder({ record: config.record, skip: config.skip ?? [svc.server.metrics_path] })
      svc.provide(AUDIT_LOG, auditLog)
      svc.auth.observer((decision) => {
        const record = recordOf(decision)
        return record === undefined ? undefined : auditLog.keep(record)
      })
      const schema = {
        tags: ['admin'],
        summary: 'The newest entries of the audit log, oldest first, and the hash of the last one',
        querystring: Type.Object({ limit: Type.Integer({ default: 100, minimum: 1, maximum: 10_000 }) }),
      }
      svc.http.get('/api/v1/admin/audit', { config: { action: 'admin' }, schema }, (request, reply) => {
        const { lines, lastHash } = auditLog.newest(request.query.limit)
        // As they stand in the file: numbers of 64 bits do not go through a double.
        const entries = lines.map((line) => line.trimEnd()).join(',')
        return reply.type('application/json; charset=utf-8').send(`{"last_hash":${JSON.stringify(lastHash ?? null)},"entries":[${entries}]}`)
      })
      svc.start(async () => {
        await auditLog.open()
      })
      svc.stop(() => auditLog.stop())
    },
  })
