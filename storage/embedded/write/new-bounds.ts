/** What one write may begin: a batch is admitted, encoded and defined in one turn of the event loop, and what is new costs far more than rows do. */
import { SvcError } from 'svcdb/lib/errors'

export interface MaxNew {
  /** Measurements, fields and tables. */
  definitions: number
  series: number
}

export function tooManyDefinitions(max: number): SvcError {
  return refusal(`${max} measurements, fields and tables`, 'max_new_definitions_per_write')
}

export function tooManySeries(max: number): SvcError {
  return refusal(`${max} series`, 'max_new_series_per_write')
}

function refusal(max: string, key: string): SvcError {
  return new SvcError('BAD_REQUEST', `cannot write: the batch would begin more than ${max} at once; send smaller batches or raise database.${key}`)
}
