/** Every file name below the data directory. Format: docs/formats/forward-queue.md. */
import { join } from 'node:path'

export const paths = (dataDir: string) => ({
  lock: join(dataDir, 'LOCK'),
  queue: join(dataDir, 'queue'),
  /** What names this queue to upstreams. */
  identity: join(dataDir, 'queue-id'),
  /** How much it has counted. */
  counted: join(dataDir, 'queue-count.json'),
  /** How far each upstream is. */
  positions: join(dataDir, 'positions'),
  /** Bytes of the queue that could not be read. */
  damaged: join(dataDir, 'damaged'),
  state: join(dataDir, 'state'),
  /** Whose files are in `state`. */
  stateOwners: join(dataDir, 'state-owners.json'),
  deadLetters: join(dataDir, 'dead-letters'),
})

export const queueFileName = (file: number): string => `${String(file).padStart(12, '0')}.queue`
export const queueFileNumber = (name: string): number | undefined => {
  const match = /^(\d{12})\.queue$/.exec(name)
  return match === null ? undefined : Number(match[1])
}
export const positionFileName = (sender: string): string => `${sender}.json`
export const damagedFileName = (file: number, at: number): string => `${queueFileName(file)}.${at}`
/** An owner may be called what no file can be. */
export const stateFileName = (owner: string): string => `${encodeURIComponent(owner).replaceAll('.', '%2E')}.json`
/** @returns undefined for a file that is none of those. */
export const ownerOf = (file: string): string | undefined => (file.endsWith('.json') ? decodeURIComponent(file.slice(0, -'.json'.length)) : undefined)
