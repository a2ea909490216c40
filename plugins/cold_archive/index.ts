import { realpath } from 'node:fs/promises'
import { basename, dirname, join, sep } from 'node:path'
import { type ArchiveService, definePlugin } from 'svcdb'
import { makeFolder, realFileCalls } from 'svcdb/lib/files'
import { runArchive } from './archive-run.ts'
import { type ColdArchiveConfig, configSchema } from './config.ts'
import { FolderStore } from './folder-store.ts'
import { archiveMetrics } from './metrics.ts'
import { parseRemote } from './remote.ts'
import type { S3Store } from './s3-store.ts'

export default definePlugin({
  id: 'cold_archive',
  summary: 'Moves old data to a folder or an S3-compatible store as Parquet, where queries still find it',
  stability: 'beta',
  config: configSchema,
  capabilities: ['archive'],
  async check({ section, dataDir, env }) {
    const remote = parseRemote(section as ColdArchiveConfig, env)
    if (remote?.kind !== 'folder' || dataDir === undefined) return
    const [folder, data] = [await whereItIs(remote.path), await whereItIs(dataDir)]
    if (folder === data || folder.startsWith(`${data}${sep}`))
      throw new Error(`cannot archive to folder "${folder}": it lies in the data directory "${dataDir}"; choose a place outside of it`)
  },
  setup(svc, config) {
    const remote = parseRemote(config, process.env)
    const metrics = archiveMetrics(svc.metrics)
    if (remote === undefined) {
      svc.log.warn('cold_archive.remote_url is not set: nothing is archived, and what was archived cannot be read')
      return
    }
    let bucket: S3Store | undefined
    svc.start(async () => {
      const archive = svc.storage.archive as ArchiveService
      if (remote.kind === 'folder') {
        // Before anything local is deleted for what is in it. Other programs may read it.
        await makeFolder(remote.path, realFileCalls, 0o777).catch((cause: Error) => {
          throw new Error(`cannot make the folder of cold_archive.remote_url: ${cause.message}; name one that the server can make, or make it yourself`, {
            cause,
          })
        })
        archive.attach(new FolderStore(await realpath(remote.path)), config.take_over_from)
      } else {
        const { S3Store } = await import('./s3-store.ts')
        bucket = new S3Store(remote, config.request_timeout_secs * 1000)
        archive.attach(bucket, config.take_over_from)
      }
    })
    // The first run begins at once: a server that is restarted often archives too.
    const archive = () => runArchive(svc.storage.archive as ArchiveService, config, metrics, svc.log)
    // Each node for itself: nodes that share their state have points of their own, where there is an archive.
    svc.schedule('archive', config.interval_secs * 1000, archive, { first: 0, local: true, detached: true })
    svc.stop(() => bucket?.close())
  },
})

/** Behind links, also of what is not there yet. */
async function whereItIs(path: string): Promise<string> {
  try {
    return await realpath(path)
  } catch {
    return dirname(path) === path ? path : join(await whereItIs(dirname(path)), basename(path))
  }
}
