/** What a subscriber asks for, and positions within a change. Other positions are those of the change cursor (docs/decisions/060). */
import { createHash } from 'node:crypto'
import type { ChangeKind, ChangePosition } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import type { SubscribeRequest } from './requests.ts'

/** Numbers of ChangeKind in svc.proto. */
export const KIND_NUMBERS: Record<ChangeKind, number> = { rows: 1, series_deleted: 2, measurement_dropped: 3, measurement_restored: 4, gap: 5 }
const ASKED: readonly ChangeKind[] = ['rows', 'series_deleted', 'measurement_dropped', 'measurement_restored']
const MAX_MEASUREMENTS = 1000

export interface Subscription {
  measurements: string[] | undefined
  kinds: ChangeKind[]
  after: ChangePosition | undefined
  /** The position behind the change of which the subscriber has had some, and how many rows, or series, of it. */
  within: { change: ChangePosition; parts: number } | undefined
  /** Stands for the filters in positions: within a change they count only for the same ones. */
  filters: string
}

/** @param tenant drops and restores are not told to it. @throws BAD_REQUEST */
export function subscriptionOf({ measurements, kinds, after }: SubscribeRequest, tenant: boolean): Subscription {
  if (measurements.length > MAX_MEASUREMENTS)
    throw new SvcError('BAD_REQUEST', `cannot subscribe to ${measurements.length} measurements: at most ${MAX_MEASUREMENTS} can be named; name none for all`)
  if (measurements.includes('')) throw new SvcError('BAD_REQUEST', 'cannot subscribe to measurement "": the name is empty; name none for all')
  const asked = kinds.length === 0 ? ASKED : kinds.map(kindOf)
  const told = tenant ? asked.filter((kind) => kind === 'rows' || kind === 'series_deleted') : [...asked]
  const names = measurements.length === 0 ? undefined : measurements
  const filters = createHash('sha256')
    .update(JSON.stringify([names?.toSorted() ?? null, told.toSorted()]))
    .digest('hex')
    .slice(0, 8)
  return { measurements: names, kinds: told, filters, ...resumed(after, filters) }
}

/** The position within a change. @param before the position before the change. @param parts rows, or series, of it that come before this position. */
export const partialPosition = (before: ChangePosition, change: ChangePosition, parts: number, filters: string): string =>
  `${before}.${change}.${parts}.${filters}`

function kindOf(number: number): ChangeKind {
  const kind = ASKED.find((known) => KIND_NUMBERS[known] === number)
  if (kind !== undefined) return kind
  throw new SvcError(
    'BAD_REQUEST',
    `cannot subscribe to changes of kind ${number}: there is none to ask for; use ROWS_WRITTEN, SERIES_DELETED, MEASUREMENT_DROPPED, MEASUREMENT_RESTORED`,
  )
}

function resumed(given: string, filters: string): Pick<Subscription, 'after' | 'within'> {
  if (given === '') return { after: undefined, within: undefined }
  const [after, change, parts = '', of] = given.split('.', 4)
  return { after, within: of === filters && /^[0-9]{1,9}$/.test(parts) ? { change, parts: Number(parts) } : undefined }
}
