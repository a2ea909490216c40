/** The newest rows of series and the newest values of fields, all as of one moment: what a statement for newest rows is answered from. */
import { Turn } from 'svcdb/lib/event-loop'
import { encryptedField } from '../../encryption/open.ts'
import type { NewestOfSeries } from '../../sql/index.ts'
import type { FieldDef, MeasurementDef } from '../../threads/definitions.ts'
import type { Snapshot } from '../../threads/state.ts'
import type { RelationContext } from '../relation.ts'
import type { Interval } from '../sources.ts'
import { NewestCache } from './newest-cache.ts'
import type { NewestEntry } from './newest-entry.ts'
import { halves, KNOWN } from './newest-rows.ts'

/** While others look for the same, it may change under the hand. */
const ATTEMPTS = 3

interface NewestTableRequest {
  measurement: MeasurementDef
  fields: readonly FieldDef[]
  /** Ascending. */
  series: Int32Array
  time: Interval
  signal: AbortSignal | undefined
}

/**
 * First of rows, then of each field. Undefined where it is not kept, or rows later than the range may hide others.
 * @param attempts 1: as of this snapshot; else it may be as of a later one.
 */
export async function newestOfSeries(
  context: RelationContext,
  first: Snapshot,
  request: NewestTableRequest,
  attempts = ATTEMPTS,
): Promise<NewestOfSeries[] | undefined> {
  const { measurement, fields, series, time, signal } = request
  const segments = measurement.tables.flatMap((table) => first.table(table).segments)
  if (!fields.every(NewestCache.keeps) || encryptedField(context.duck.encrypted.keys.columns, fields, segments) !== undefined) return undefined
  const { newest } = context.sampleBlocks
  const wanted = [undefined, ...fields]
  // One would push out the other, and what others keep.
  if (!newest.hasRoomFor(wanted.length, context.state.series.of(measurement.id).length)) return undefined
  const turn = new Turn(signal)
  for (let attempt = 0, snapshot = first; attempt < attempts; attempt++, snapshot = await context.state.snapshot(context.pin)) {
    let whole = true
    for (const field of wanted) {
      const entry = await newest.known({ context, snapshot, measurement, field, series, floor: time[0], signal })
      if (entry === undefined) whole = false
      if (turn.isOver) await turn.next()
    }
    const entries = whole ? wanted.map((field) => newest.now({ context, snapshot, measurement, field, series })) : []
    if (!whole || !entries.every((entry) => entry !== undefined && entry.floor <= time[0] && entry.unknown(series)?.length === 0)) continue
    const out = (entries as NewestEntry[]).map((entry) => aligned(entry, series, time))
    return out.includes(undefined) ? undefined : (out as NewestOfSeries[])
  }
  return undefined
}

/** By position of the series; undefined when one has a row that is later than the range. */
function aligned(entry: NewestEntry, series: Int32Array, [from, to]: Interval): NewestOfSeries | undefined {
  const { rows } = entry
  const known = new Uint8Array(series.length)
  const times = new Int32Array(series.length * 2)
  const bits = new Int32Array(series.length * 2)
  const [fromLow, fromHigh] = halves(from)
  const [toLow, toHigh] = halves(to)
  let later = false
  entry.each(series, (slot, i) => {
    if (rows.states[slot] !== KNOWN || rows.compare(slot, fromLow, fromHigh) < 0) return
    if (rows.compare(slot, toLow, toHigh) > 0) later = true
    known[i] = 1
    times[i * 2] = rows.times[slot * 2]
    times[i * 2 + 1] = rows.times[slot * 2 + 1]
    bits[i * 2] = rows.bits[slot * 2]
    bits[i * 2 + 1] = rows.bits[slot * 2 + 1]
  })
  return later ? undefined : { known, times: new BigInt64Array(times.buffer), bits }
}
