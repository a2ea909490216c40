import { definePlugin } from 'svcdb'
import { Checkpoints } from './checkpoints.ts'
import { configSchema } from './config.ts'
import { BackupHandler } from './handler.ts'
import { backupBody, manifest, restoreBody, verifyBody } from './schemas.ts'

/** After a failure, when the interval is not shorter. */
const RETRY_MS = 60_000

const tags = ['admin']
const response = { 200: manifest }
const config = { action: 'admin' as const }

export default definePlugin({
  id: 'backup',
  summary: 'Makes, verifies and restores backups of the whole database while it runs, on request and by the clock',
  stability: 'stable',
  section: 'database.checkpoints',
  config: configSchema,
  capabilities: ['backup'],
  setup(svc, checkpoints) {
    const handler = new BackupHandler(svc, checkpoints)

    const backup = { tags, summary: 'Makes a backup; an older one in the directory is replaced where the storage engine can', body: backupBody, response }
    svc.http.post('/api/v1/admin/backup', { config, schema: backup }, ({ body }) => handler.backup(body.target_dir))
    const verify = { tags, summary: 'Checks that a backup is whole', body: verifyBody, response }
    svc.http.post('/api/v1/admin/backup/verify', { config, schema: verify }, ({ body }) => handler.verify(body.backup_dir))
    const restore = { tags, summary: 'Makes a data directory, or what the storage engine has instead, out of a backup', body: restoreBody, response }
    svc.http.post('/api/v1/admin/restore', { config, schema: restore }, ({ body }) => handler.restore(body.backup_dir, body.target_dir))

    if (checkpoints.interval_secs === 0) return
    svc.start(() => void handler.directories)
    const intervalMs = checkpoints.interval_secs * 1000
    const scheduled = new Checkpoints({
      directory: () => handler.checkpointDirectory,
      directories: () => handler.directories,
      intervalMs,
      keep: checkpoints.keep,
      clock: svc.clock,
      log: svc.log,
      make: (directory) => handler.checkpoint(directory),
      failed: () => handler.countFailure(),
    })
    // Each node for itself: nodes that share their state have points of their own, where checkpoints can be made.
    svc.schedule('checkpoints', intervalMs, () => scheduled.run(), { first: () => scheduled.due(), retry: RETRY_MS, local: true, detached: true })
  },
})
