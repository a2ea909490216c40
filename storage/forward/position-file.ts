/** How far a sender is, as it is noted on the disk. Layout: docs/formats/forward-queue.md. */
import { readFile } from 'node:fs/promises'
import { replaceFile } from 'svcdb/lib/files'
import { checkedText, checkedValue } from './checked-json.ts'
import type { QueuePosition, RecordCount } from './sender-positions.ts'

export interface SavedPlaces {
  at: QueuePosition
  parked: { namespace: string; place: QueuePosition }[]
  /** By file of the queue: what was passed over and waits. */
  passed: ReadonlyMap<number, RecordCount>
  /** The life of the edge that ended with this note: what was sent in it is before the place. */
  stopped?: number | undefined
}

interface PositionFile extends QueuePosition {
  version: number
  main?: QueuePosition
  parked?: (QueuePosition & { namespace: string })[]
  passed?: [file: number, records: number, points: number][]
  stopped?: number
}

/**
 * The place that a server reads which knows no parked namespaces is the lowest: it sends again what was sent, and skips nothing.
 * @param from the lowest place of parked namespaces.
 */
export async function notePlaces(path: string, { at, parked, passed, stopped }: SavedPlaces, from: QueuePosition | undefined): Promise<void> {
  const noted: PositionFile = { version: 1, ...(from ?? at) }
  if (from !== undefined) {
    noted.main = at
    noted.parked = parked.map(({ namespace, place }) => ({ namespace, ...place }))
    noted.passed = [...passed].map(([file, { records, points }]) => [file, records, points])
  }
  if (stopped !== undefined) noted.stopped = stopped
  await replaceFile(path, checkedText(noted))
}

/** How much the queue has counted, so that the next start knows what is missing at its end. @param life the number of this start. */
export async function noteCounted(path: string, { records, points }: RecordCount, life: number): Promise<void> {
  await replaceFile(path, checkedText({ version: 1, life, sequence: records, points }))
}

/** At least as much as was counted, and the last life; undefined where nothing was noted. @throws Error in a few words for what cannot be read. */
export async function notedCount(path: string): Promise<({ life: number } & Pick<QueuePosition, 'sequence' | 'points'>) | undefined> {
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw error
  })
  if (text === undefined) return undefined
  const { version, life, sequence, points } = checkedValue(text) as PositionFile & { life: number }
  if (version !== 1) throw new Error(`its version is ${version}`)
  return { life: whole(life), sequence: whole(sequence), points: whole(points) }
}

/**
 * Where a sender was; undefined where nothing was noted, or nothing that can be read: it then begins with the oldest, for a place that is not the right one would
 * pass over what was not sent.
 * @param unreadable told why a file that is there is of no use.
 */
export async function savedPlaces(path: string, unreadable: (error: Error) => void = () => {}): Promise<SavedPlaces | undefined> {
  try {
    const noted = checkedValue(await readFile(path, 'utf8')) as PositionFile
    if (noted.version !== 1) throw new Error(`its version is ${noted.version}`)
    const parked = (noted.parked ?? []).map((one) => ({ namespace: String(one.namespace), place: positionOf(one) }))
    const passed = (noted.passed ?? []).map(([file, records, points]): [number, RecordCount] => [
      whole(file),
      { records: whole(records), points: whole(points) },
    ])
    return { at: positionOf(noted.main ?? noted), parked, passed: new Map(passed), ...(noted.stopped !== undefined && { stopped: whole(noted.stopped) }) }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') unreadable(error as Error)
    return undefined
  }
}

const positionOf = ({ file, offset, sequence, points }: QueuePosition): QueuePosition => ({
  file: whole(file),
  offset: whole(offset),
  sequence: whole(sequence),
  points: whole(points),
})

function whole(value: number): number {
  if (!Number.isSafeInteger(value) || value < 0) throw new RangeError(`${value} is no count`)
  return value
}
