/** What one write may begin: a batch is admitted, encoded and defined in one turn of the event loop, and what is new costs far more than rows do. */
import { SvcError } from 'svcdb/lib/errors'

export interface MaxNew {
  /** Measurements, fields and tables. */
  definitions: number
  series: number
  /** Of the tags of those, each text as often as a series has it: the log has the tags of each in full. */
  seriesBytes: number
}

/** The series that a write begins. */
export class NewSeriesList {
  readonly handles: number[] = []
  private bytes = 0
  private readonly max: MaxNew

  constructor(max: MaxNew) {
    this.max = max
  }

  /** @throws BAD_REQUEST when there are too many: this one is among them, and taken back with them. */
  add(handle: number, tagBytes: number): void {
    const { series, seriesBytes } = this.max
    this.handles.push(handle)
    this.bytes += tagBytes
    if (this.handles.length > series) throw refusal(`${series} series`, 'max_new_series_per_write')
    if (this.bytes > seriesBytes) throw refusal(`${seriesBytes} bytes of tags of series`, 'max_new_series_bytes_per_write')
  }
}

export function tooManyDefinitions(max: number): SvcError {
  return refusal(`${max} measurements, fields and tables`, 'max_new_definitions_per_write')
}

function refusal(max: string, key: string): SvcError {
  return new SvcError('BAD_REQUEST', `cannot write: the batch would begin more than ${max} at once; send smaller batches or raise database.${key}`)
}
