/** A row's time against another one, as a condition of SQL. */
import { INT64_MAX } from '../../common/time.ts'

/** 1677-09-22T00:00:00Z: of what lies before, DuckDB holds values and makes no constants. */
const FIRST_CONSTANT = -9_223_286_400_000_000_000n

/** @param column of TIMESTAMP_NS. @param time nanoseconds; of those that DuckDB makes a constant of, files' statistics are looked at. */
export function comparedTime(column: string, operator: '=' | '<' | '<=' | '>' | '>=', time: bigint): string {
  // The last one stands for infinity.
  const made = time >= FIRST_CONSTANT && time < INT64_MAX
  return made ? `${column} ${operator} make_timestamp_ns(${time})` : `epoch_ns(${column}) ${operator} ${time}`
}
