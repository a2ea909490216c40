/** A folder as an object store. An object appears whole or not at all: written under another name, synced, renamed, and its folders synced. */
import { randomUUID } from 'node:crypto'
import { constants, copyFile, link, open, rename, rm, rmdir, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { ObjectStore } from 'svcdb'
import { classify, SvcError } from 'svcdb/lib/errors'
import { makeDirectory } from 'svcdb/lib/files'
import { tooLarge } from './too-large.ts'

const UNFINISHED = '.unfinished'

export class FolderStore implements ObjectStore {
  readonly name: string
  readonly directory: string

  /** @param directory absolute. */
  constructor(directory: string) {
    this.directory = directory
    this.name = `folder "${directory}"`
  }

  async put(key: string, path: string): Promise<void> {
    await this.store(key, path, UNFINISHED, rename)
  }

  async create(key: string, path: string): Promise<boolean> {
    let created = true
    // Others may create it at the same time.
    await this.store(key, path, `.${randomUUID()}${UNFINISHED}`, async (unfinished, target) => {
      created = await linked(unfinished, target)
      await rm(unfinished)
    })
    return created
  }

  /** @param suffix of the name until it is whole. @param name gives what is written its own. */
  private async store(key: string, path: string, suffix: string, name: (unfinished: string, target: string) => Promise<void>): Promise<void> {
    await this.guarded('write', key, async (target) => {
      const unfinished = target + suffix
      await makeDirectory(dirname(target))
      try {
        await copyFile(path, unfinished)
        await sync(unfinished)
        await name(unfinished, target)
      } catch (error) {
        await rm(unfinished, { force: true }).catch(() => {})
        throw error
      }
      for (let folder = dirname(target); folder.length >= this.directory.length; folder = dirname(folder)) await sync(folder)
    })
  }

  async get(key: string, path: string, maxBytes = Number.POSITIVE_INFINITY): Promise<void> {
    const large = await this.guarded('read', key, async (target) => {
      if ((await stat(target)).size > maxBytes) return true
      await copyFile(target, path, constants.COPYFILE_EXCL)
      return false
    })
    if (large) throw tooLarge(key, this.name, maxBytes)
  }

  async size(key: string): Promise<number | undefined> {
    return this.guarded('look at', key, async (target) => {
      const found = await stat(target).catch(unlessMissing)
      return found?.size
    })
  }

  async remove(key: string): Promise<void> {
    await this.guarded('remove', key, async (target) => {
      await rm(target, { force: true })
      await rm(target + UNFINISHED, { force: true })
      // Partitions that are empty now.
      for (let folder = dirname(target); folder.length > this.directory.length; folder = dirname(folder)) {
        const gone = await rmdir(folder).then(
          () => true,
          () => false,
        )
        if (!gone) return
      }
    })
  }

  private async guarded<T>(verb: string, key: string, body: (path: string) => Promise<T>): Promise<T> {
    try {
      return await body(join(this.directory, key))
    } catch (error) {
      const known = classify(error)
      if (known.code === 'STORAGE_FULL') {
        // What is read goes to the data volume; what is written goes to the folder's, which is another one as a rule.
        if (verb === 'read') throw known
        throw new SvcError('STORAGE_FULL', `cannot ${verb} object "${key}" in ${this.name}: no space left on its volume; free space there`, { cause: error })
      }
      const missing = (error as NodeJS.ErrnoException).code === 'ENOENT'
      const code = missing ? 'NOT_FOUND' : 'OVERLOADED'
      throw new SvcError(code, `cannot ${verb} object "${key}" in ${this.name}: ${(error as Error).message}`, { cause: error })
    }
  }
}

/** File systems without links have the other way; there a crash may leave a part of it. @returns false where the target exists. */
async function linked(from: string, target: string): Promise<boolean> {
  try {
    await link(from, target).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'EEXIST') throw error
      return copyFile(from, target, constants.COPYFILE_EXCL)
    })
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
}

function unlessMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}

async function sync(path: string): Promise<void> {
  const handle = await open(path, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}
