/** Where exports lie. Each namespace that is kept apart has a folder of its own: its names are nobody else's, and it holds no more than the namespace may. */
import { readdir, rm, rmdir, stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { NamespaceQuota } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'

/** Others are under way, or what a crash has left, which the next export into the folder removes. */
const FINISHED = /\.parquet$/i
const EXPORT = /\.parquet(\.\d+\.unfinished)?$/i

export class ExportFolders {
  private readonly root: string
  /** The same, where nothing is relative. */
  private readonly absolute: string | undefined
  private readonly quota: (namespace: string) => NamespaceQuota | undefined

  /** @param directory as configured; empty = the engine's own place, below `dataDir`. */
  constructor(directory: string, dataDir: string | undefined, quota: (namespace: string) => NamespaceQuota | undefined) {
    this.root = directory === '' ? '' : resolve(directory)
    this.absolute = directory === '' ? dataDir && join(dataDir, 'exports') : this.root
    this.quota = quota
  }

  folder(namespace: string): string {
    return join(this.root, namespace)
  }

  /** Bytes that a namespace's quota of storage leaves for others than finished files; undefined = it has none. @throws RATE_LIMITED when its files take as much. */
  async left(namespace: string): Promise<number | undefined> {
    const most = namespace === '' ? 0 : (this.quota(namespace)?.max_storage_bytes ?? 0)
    if (most === 0) return undefined
    const sizes = await Promise.all((await this.files(namespace, FINISHED)).map(async (file) => (await stat(file).catch(() => undefined))?.size ?? 0))
    const left = most - sizes.reduce((sum, size) => sum + size, 0)
    if (left <= 0)
      throw new SvcError(
        'RATE_LIMITED',
        `cannot export: the files that namespace "${namespace}" has exported take as much as its quota max_storage_bytes of ${most}; have some removed`,
      )
    return left
  }

  /** Removes the files of a namespace, and nothing that is no export. */
  async remove(namespace: string): Promise<void> {
    if (this.absolute === undefined || namespace === '') return
    for (const file of await this.files(namespace, EXPORT)) await rm(file, { force: true })
    // Somebody may keep more there.
    await rmdir(join(this.absolute, namespace)).catch(() => {})
  }

  private async files(namespace: string, wanted: RegExp): Promise<string[]> {
    if (this.absolute === undefined) return []
    const folder = join(this.absolute, namespace)
    const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return []
      throw error
    })
    return names.filter((name) => wanted.test(name)).map((name) => join(folder, name))
  }
}
