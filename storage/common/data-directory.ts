/** A data directory is its owner's only, unless it is a folder of another purpose, whose users would lose it. */
import { join } from 'node:path'
import type { StorageContext } from 'svcdb'
import type { FileSystem } from './log/file-system.ts'

/** Of a volume of its own. */
const OF_THE_VOLUME = 'lost+found'

type DirectoryCalls = Pick<FileSystem, 'readdirSync' | 'ownerOnlySync' | 'openToOthersSync'>

/** Call before anything is made in it. @returns what is there; nothing where it cannot be looked into: who makes it says why. */
export function contentsOf(dataDir: string, fs: DirectoryCalls): readonly string[] {
  try {
    return fs.readdirSync(dataDir)
  } catch {
    return []
  }
}

/**
 * Closes it when it was empty, or when an older version, which left all open, has made it; else says that it is open.
 * @param found what was there before this start. @param own a folder that the engine makes at its first start.
 */
export function closeToOthers(dataDir: string, found: readonly string[], own: string, fs: DirectoryCalls, log: StorageContext['log']): void {
  const older = found.includes(own) && fs.openToOthersSync(join(dataDir, own))
  if (older || found.every((name) => name === OF_THE_VOLUME)) return fs.ownerOnlySync(dataDir)
  if (!fs.openToOthersSync(dataDir)) return
  log.warn(
    { data_dir: dataDir },
    'the data directory holds files of others, and stays open to other accounts, who see the names in it; name a folder of its own, or take their rights: chmod 700',
  )
}
