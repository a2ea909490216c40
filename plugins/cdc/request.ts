/** What a subscriber asks for, and what `id:` lines say. */
import { createHash } from 'node:crypto'
import type { ChangeKind, ChangePosition } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import type { FrameIds } from './point-frames.ts'

const EVENTS = ['point_written', 'series_deleted', 'measurement_dropped', 'measurement_restored'] as const
type EventType = (typeof EVENTS)[number]
const KIND_OF: Record<EventType, ChangeKind> = {
  point_written: 'rows',
  series_deleted: 'series_deleted',
  measurement_dropped: 'measurement_dropped',
  measurement_restored: 'measurement_restored',
}
const MAX_ID_SHOWN = 100
const MAX_MEASUREMENTS = 1000

export interface Subscription {
  measurements: string[] | undefined
  kinds: ChangeKind[]
  after: ChangePosition | undefined
  /** Frames of the first change that the reader has had, if it is the one meant. */
  skip: number
  /** Place of that change, without the history. */
  within: string
  /** Stands for the filters in ids: within a change they count only for the same ones. */
  filters: string
}

interface Query {
  measurement?: string
  event_type?: string
}

/** @param tenant drops and restores are not told to it. @param lastId the header Last-Event-ID. @throws BAD_REQUEST */
export function subscriptionOf({ measurement, event_type }: Query, lastId: string | undefined, tenant: boolean): Subscription {
  const measurements = listOf('measurement', measurement)
  if (measurements !== undefined && measurements.length > MAX_MEASUREMENTS)
    throw new SvcError(
      'BAD_REQUEST',
      `cannot stream changes of ${measurements.length} measurements: at most ${MAX_MEASUREMENTS} can be named; leave the parameter out for all`,
    )
  const events = listOf('event_type', event_type) ?? EVENTS
  for (const event of events)
    if (!EVENTS.includes(event as EventType))
      throw new SvcError('BAD_REQUEST', `cannot stream events of type "${event.slice(0, 80)}": there is none; use ${EVENTS.join(', ')}`)
  const kinds = [...new Set(events)].map((event) => KIND_OF[event as EventType])
  const told = tenant ? kinds.filter((kind) => kind === 'rows' || kind === 'series_deleted') : kinds
  const filters = createHash('sha256')
    .update(JSON.stringify([measurements?.toSorted() ?? null, told.toSorted()]))
    .digest('hex')
    .slice(0, 8)
  return { measurements, kinds: told, filters, ...resumed(lastId, filters) }
}

/** Of a place, what is its own within a history. */
export const withinHistory = (position: ChangePosition): string => position.slice(position.indexOf('-') + 1)

/** The ids of a change's frames. @param before the place before the change. @param position that of the change, which may be gone when its reader comes back. */
export const idsOf = (before: ChangePosition, filters: string, position: ChangePosition): FrameIds => ({
  before: `${before}.`,
  after: `.${filters}.${withinHistory(position)}`,
  last: position,
})

function resumed(lastId: string | undefined, filters: string): Pick<Subscription, 'after' | 'skip' | 'within'> {
  if (lastId === undefined || lastId === '') return { after: undefined, skip: 0, within: '' }
  const [after, frames = '0', of = '', within = ''] = lastId.split('.')
  return { after, skip: of === filters && /^[0-9]{1,9}$/.test(frames) ? Number(frames) : 0, within }
}

/** The engine knows its own part of an id, and would name only that. @throws what `open` throws, of an id that is none with the whole of it. */
export function opened<T>(lastId: string | undefined, open: () => T): T {
  try {
    return open()
  } catch (error) {
    if (lastId === undefined || !(error instanceof SvcError) || error.code !== 'INVALID_REQUEST') throw error
    const id = JSON.stringify(lastId.slice(0, MAX_ID_SHOWN))
    throw new SvcError('INVALID_REQUEST', `cannot go on after Last-Event-ID ${id}: it is no id of this stream; leave the header out to begin with what comes`)
  }
}

function listOf(name: string, text: string | undefined): string[] | undefined {
  if (text === undefined) return undefined
  const items = text.split(',').map((item) => item.trim())
  if (items.includes(''))
    throw new SvcError(
      'BAD_REQUEST',
      `cannot stream changes by ${name} "${text.slice(0, 80)}": a name in the list is empty; give names with commas between them, or leave it out for all`,
    )
  return items
}
