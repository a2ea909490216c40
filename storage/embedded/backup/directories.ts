/** Directories of backups: where they lead, which of them are whole, and their end. */
import { basename, dirname, join } from 'node:path'
import type { BackupDirectories, BackupManifest } from 'svcdb'
import type { FilePromises } from '../../common/log/file-system.ts'
import { exists } from './disk.ts'
import { decodeManifest, MANIFEST_FILE, summary, UNFINISHED } from './manifest.ts'
import { layoutOf } from './replacement.ts'

type Listed = Awaited<ReturnType<BackupDirectories['list']>>[number]
type Alone = (directory: string, work: () => Promise<void>) => Promise<void>

export class Directories implements BackupDirectories {
  private readonly files: FilePromises
  private readonly alone: Alone

  /** @param alone does work on a directory that nobody else may use meanwhile. */
  constructor(files: FilePromises, alone: Alone = (_directory, work) => work()) {
    this.files = files
    this.alone = alone
  }

  async resolve(path: string): Promise<string> {
    try {
      return await this.files.realpath(path)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || dirname(path) === path) throw error
      // What is there and leads nowhere is a link.
      if (await exists(path, this.files)) throw error
      return join(await this.resolve(dirname(path)), basename(path))
    }
  }

  async list(directory: string): Promise<Listed[]> {
    const entries = await this.files.readdir(directory).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return []
      throw error
    })
    const names = entries.filter((entry) => entry.isDirectory()).map(({ name }) => name)
    const listed = async (name: string): Promise<Listed> =>
      this.isFinished(join(directory, name)).then(
        (finished) => ({ name, finished }),
        // Such as `lost+found` of a volume.
        (problem: Error) => ({ name, finished: false, problem }),
      )
    return Promise.all(names.map(listed))
  }

  async manifest(directory: string): Promise<BackupManifest> {
    const { manifest } = await layoutOf(directory, this.files)
    return summary(decodeManifest(await this.files.readFile(manifest), manifest))
  }

  async remove(directory: string): Promise<void> {
    await this.alone(directory, async () => {
      for (const manifest of [join(directory, UNFINISHED, MANIFEST_FILE), join(directory, MANIFEST_FILE)]) await this.files.rm(manifest, { force: true })
      await this.files.rm(directory, { recursive: true, force: true })
    })
  }

  /** Whether there is a backup in a directory, whole when it was made. */
  async isFinished(directory: string): Promise<boolean> {
    return exists((await layoutOf(directory, this.files)).manifest, this.files)
  }
}
