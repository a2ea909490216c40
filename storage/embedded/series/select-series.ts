/** Has an engine thread select series by their tags. */
import type { Matcher } from 'svcdb'
import { moduleUrl } from 'svcdb/lib/modules'
import type { WorkerPool } from '../threads/pool/pool.ts'
import type { Selection } from './selection.ts'

const JOB = moduleUrl('./select-job.ts', import.meta.url)

/** The series of a measurement that satisfy all matchers. @throws BAD_REQUEST for a regular expression that does not parse or takes too long. */
export type SelectSeries = (namespace: string, measurement: number, matchers: readonly Matcher[]) => Promise<Selection>

export const selectSeries =
  (pool: Pick<WorkerPool, 'run'>): SelectSeries =>
  (namespace, measurement, matchers) =>
    pool.run<Selection>(JOB, { measurement, matchers }, { namespace }).result
