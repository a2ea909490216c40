/** How far a sender is, as it is noted on the disk. Layout: docs/formats/forward-queue.md. */
import { readFile } from 'node:fs/promises'
import { replaceFile } from 'svcdb/lib/files'
import { checkedText, checkedValue } from './checked-json.ts'
import type { QueuePosition, RecordCount } from './places.ts'

export interface SavedPlaces {
  at: QueuePosition
  parked: { namespace: string; place: QueuePosition }[]
  /** By file of the queue: what was passed over and waits. */
  passed: ReadonlyMap<number, RecordCount>
}

interface PositionFile extends QueuePosition {
  version: number
  main?: QueuePosition
  parked?: (QueuePosition & { namespace: string })[]
  passed?: [file: number, records: number, points: number][]
}

/**
 * The place that a server reads which knows no parked namespaces is the lowest: it sends again what was sent, and skips nothing.
 * @param from the lowest place of parked namespaces.
 */
export async function notePlaces(path: string, { at, parked, passed }: SavedPlaces, from: QueuePosition | undefined): Promise<void> {
  const noted: PositionFile = { version: 1, ...(from ?? at) }
  if (from !== undefined) {
    noted.main = at
    noted.parked = parked.map(({ namespace, place }) => ({ namespace, ...place }))
    noted.passed = [...passed].map(([file, { records, points }]) => [file, records, points])
  }
  await replaceFile(path, checkedText(noted))
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
    return { at: positionOf(noted.main ?? noted), parked, passed: new Map(passed) }
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
