/** Every file name in the data directory. Formats: docs/formats/. */
import { join } from 'node:path'

export const paths = (dataDir: string) => ({
  lock: join(dataDir, 'LOCK'),
  wal: join(dataDir, 'wal'),
  catalog: join(dataDir, 'catalog'),
  segments: join(dataDir, 'segments'),
  /** Segment files that were found corrupt and set aside. */
  damaged: join(dataDir, 'damaged'),
  /** Where exports go that name no other place. */
  exports: join(dataDir, 'exports'),
  /** Where backups go that name no other place. */
  backups: join(dataDir, 'backups'),
  /** Copies of archived segments that queries have read; emptied at open. */
  archiveCache: join(dataDir, 'archive-cache'),
  /** Scratch space of the engine threads; emptied at open. */
  temp: join(dataDir, 'tmp'),
})

export const walFileName = (sequence: number): string => `${String(sequence).padStart(12, '0')}.wal`
export const walFileSequence = (name: string): number | undefined => {
  const match = /^(\d{12})\.wal$/.exec(name)
  return match === null ? undefined : Number(match[1])
}
