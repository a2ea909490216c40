/**
 * Places of change cursors as text: `<history>-<sequence>-<part>`, each of fixed width in hexadecimal, so that text orders as the changes do. The history is that of
 * the database; the part tells apart the changes of one commit, and WHOLE stands behind all of them.
 */
import type { ChangePosition, MeasurementFilter } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'

export interface Place {
  sequence: number
  part: number
}

export const WHOLE = Number.MAX_SAFE_INTEGER
const FORM = /^([0-9a-f]{16})-([0-9a-f]{14})-([0-9a-f]{14})$/
const HISTORY_DIGITS = 16

/** @param identity of the database, hexadecimal. */
export const historyOf = (identity: string): string => identity.slice(0, HISTORY_DIGITS)

export function positionOf(history: string, { sequence, part }: Place): ChangePosition {
  return `${history}-${digits(sequence)}-${digits(part)}`
}

/** @throws INVALID_REQUEST for a text that is no place. */
export function placeOf(position: ChangePosition): Place & { history: string } {
  const [, history, sequence, part] = FORM.exec(position) ?? []
  const place = { history, sequence: Number.parseInt(sequence, 16), part: Number.parseInt(part, 16) }
  if (history === undefined || place.sequence > WHOLE || place.part > WHOLE)
    throw new SvcError(
      'INVALID_REQUEST',
      `cannot read changes from place ${JSON.stringify(String(position).slice(0, 80))}: it is none; give one as a change has it`,
    )
  return place
}

/** Whether `a` is behind or at `b`, so that all up to `b` comes before it. */
export const reaches = (a: Place, b: Place): boolean => a.sequence > b.sequence || (a.sequence === b.sequence && a.part >= b.part)

export function wanted(filter: MeasurementFilter | undefined): (measurement: string, namespace: string) => boolean {
  if (filter === undefined) return () => true
  if (typeof filter === 'function') return filter
  const names = new Set(filter)
  return (measurement) => names.has(measurement)
}

const digits = (value: number): string => value.toString(16).padStart(14, '0')
