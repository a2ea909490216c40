/** What the lane needs from the engine thread it runs in. */
import type { SampleRows } from 'svcdb/lib/columns'
import type { NewestPlan } from './newest.ts'
import type { NewestTable } from './newest-answer.ts'
import type { ScanPlan } from './plan.ts'
import type { LaneCatalog } from './recognise.ts'

export interface LaneHost extends LaneCatalog {
  rows(plan: ScanPlan): LaneRows
  /** Undefined where it is not known without a scan. */
  newest(plan: NewestPlan): Promise<NewestTable | undefined>
}

export type VisitSamples = (series: number, times: Float64Array, values: Float64Array, from: number, to: number) => void

/** What samples of some series leave out. */
export interface SampleTraits {
  /** Some rows have no value of the field. */
  sparse: boolean
  /** Some times are not whole milliseconds. */
  fine: boolean
  /** Of integer fields: no sample is outside. */
  integers: { min: number; max: number } | undefined
}

export interface LaneBlock extends SampleTraits {
  samples: SampleRows
}

/** The rows of a plan's measurement, time and tags; filters are not applied. */
export interface LaneRows {
  /** How many series; blocks refer to them by position. */
  readonly series: number
  /** A tag by its name in SQL: of each series the number of its value, negative without one. */
  tag(name: string): { codes: Int32Array; texts: readonly string[] }
  /** Inclusive milliseconds that hold all rows; undefined when there are none. */
  span(): [low: number, high: number] | undefined
  /** A field that every row may have, of a measurement that is asked for rows alone. */
  anyField(): string | undefined
  /** Whether some rows surely have no value of the field, or one that is not to be read here. */
  lacks(field: string): boolean
  /** Whether the samples of so many fields have room in memory together. */
  fits(fields: number): boolean
  /** Blocks of the same rows for each field that all of them have; arrays hold until the next is asked for. */
  samples(field: string): AsyncGenerator<LaneBlock>
  /** Calls back with runs [from, to) of samples of a series. @returns false once the field's samples leave out what is not accepted. */
  visit(field: string, accept: (traits: SampleTraits) => boolean, visit: VisitSamples): Promise<boolean>
}
