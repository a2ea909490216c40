/** Functions of time: the steps' and the query's own times, and the calendar (UTC). */
import { ABSENT, FLOAT, type ScalarValue, type Steps, type VectorValue } from '../eval/value.ts'
import { LabelList, Labels } from '../labels.ts'
import type { VectorCall, VectorFn } from './contract.ts'
import { droppedNames, emptyVector, mapFloats, vectorArg } from './vectors.ts'

const DAY = 86_400
/** Seconds: the year 292277026596. */
const END_OF_TIME = 2 ** 63

interface CalendarDay {
  year: number
  /** 1 to 12. */
  month: number
  day: number
}

export const TIME: Record<string, VectorFn> = {
  time: (call) => ({ type: 'scalar', values: stepSeconds(call.steps) }),
  timestamp,
  // Start timestamps are not kept: as in a Prometheus that does not keep them, there is nothing to give.
  start_timestamp: (call) => emptyVector(call.steps.count),
  start: (call) => constant(call, call.query.start / 1000),
  end: (call) => constant(call, call.query.end / 1000),
  range: (call) => constant(call, (call.query.end - call.query.start) / 1000),
  step: (call) => constant(call, call.query.start === call.query.end ? 0 : call.query.step / 1000),
  pi: (call) => constant(call, Math.PI),
  minute: calendar((_, second) => Math.floor(second / 60) % 60),
  hour: calendar((_, second) => Math.floor(second / 3600)),
  // 1 January 1970 was a Thursday.
  day_of_week: calendar((day) => (((day + 4) % 7) + 7) % 7),
  day_of_month: calendar((day) => dateOf(day).day),
  day_of_year: calendar((day) => day - daysBefore(dateOf(day).year, 1) + 1),
  days_in_month: calendar((day) => {
    const { year, month } = dateOf(day)
    return (month === 12 ? daysBefore(year + 1, 1) : daysBefore(year, month + 1)) - daysBefore(year, month)
  }),
  month: calendar((day) => dateOf(day).month),
  year: calendar((day) => dateOf(day).year),
}

function stepSeconds(steps: Steps): Float64Array {
  const values = new Float64Array(steps.count)
  for (let i = 0; i < steps.count; i++) values[i] = (steps.start + i * steps.interval) / 1000
  return values
}

function constant(call: VectorCall, value: number): ScalarValue {
  return { type: 'scalar', values: new Float64Array(call.steps.count).fill(value) }
}

/** When each sample was taken; of anything but a plain selector: the step's time. */
function timestamp(call: VectorCall): VectorValue {
  const { labels, steps, kinds } = vectorArg(call, 0)
  const { sampleTimes } = call
  const ownTimes = stepSeconds(call.steps)
  const values = new Float64Array(kinds.length)
  const floats = new Uint8Array(kinds.length)
  for (let cell = 0; cell < kinds.length; cell++) {
    if (kinds[cell] === ABSENT) continue
    floats[cell] = FLOAT
    values[cell] = sampleTimes === undefined ? ownTimes[cell % steps] : sampleTimes[cell] / 1000
  }
  return { type: 'vector', labels, steps, values, kinds: floats, dropName: droppedNames(labels) }
}

/**
 * Of the values as seconds since 1970, or without an argument of the steps' times.
 * @param f of days since 1970 and seconds into the day
 */
function calendar(f: (day: number, second: number) => number): VectorFn {
  const read = (value: number): number => {
    // What fits no 64 bits, NaN too, is the end of time to Prometheus.
    const seconds = Math.abs(value) < END_OF_TIME ? Math.trunc(value) : END_OF_TIME
    const second = ((seconds % DAY) + DAY) % DAY
    return f(Math.round((seconds - second) / DAY), second)
  }
  return (call) => {
    if (call.args.length > 0) return mapFloats(vectorArg(call, 0), read)
    const values = stepSeconds(call.steps).map(read)
    const labels = new LabelList([Labels.EMPTY])
    return { type: 'vector', labels, steps: values.length, values, kinds: new Uint8Array(values.length).fill(FLOAT) }
  }
}

/** The proleptic Gregorian calendar, in years that begin in March, so that the leap day comes last. */
function dateOf(since1970: number): CalendarDay {
  const day = since1970 + 719_468
  const era = Math.floor(day / 146_097)
  const ofEra = day - era * 146_097
  const yearOfEra = Math.floor((ofEra - Math.floor(ofEra / 1460) + Math.floor(ofEra / 36_524) - Math.floor(ofEra / 146_096)) / 365)
  const ofYear = ofEra - (365 * yearOfEra + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100))
  const march = Math.floor((5 * ofYear + 2) / 153)
  const month = march < 10 ? march + 3 : march - 9
  return { year: era * 400 + yearOfEra + (month <= 2 ? 1 : 0), month, day: ofYear - Math.floor((153 * march + 2) / 5) + 1 }
}

/** Days from 1 January 1970 to the first of a month. */
function daysBefore(year: number, month: number): number {
  const marchYear = month <= 2 ? year - 1 : year
  const era = Math.floor(marchYear / 400)
  const yearOfEra = marchYear - era * 400
  const ofYear = Math.floor((153 * (month > 2 ? month - 3 : month + 9) + 2) / 5)
  return era * 146_097 + yearOfEra * 365 + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100) + ofYear - 719_468
}
