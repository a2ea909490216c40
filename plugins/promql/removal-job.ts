/** What /admin/tsdb/delete_series is to delete, found beside the data: there may be many metrics, and many selectors. */
import type { Job } from 'svcdb'
import { Turn } from 'svcdb/lib/event-loop'
import { apiError, invalidParameter } from './http/api-error.ts'
import type { ParseLimits } from './parser/cursor.ts'
import { parseSelector } from './parser/parse.ts'
import { ParseError } from './parser/parse-error.ts'
import { type Removal, Removals } from './removal.ts'

export interface RemovalArgs {
  namespace: string
  /** The texts of `match[]`. */
  selectors: string[]
  parseLimits: ParseLimits
}

/** Deletes of one request, each of a measurement by a selector: they are listed before the first is made. */
const MAX_REMOVALS = 1_000_000

const refuse = (reason: string): Error => apiError('bad_data', `cannot delete series: ${reason}`)

/** @throws SvcError bad_data */
const removalJob: Job<RemovalArgs, Removal[]> = async (reader, { namespace, selectors, parseLimits }, { signal }) => {
  const turn = new Turn(signal)
  const removals = new Removals(await reader.schema(namespace), refuse)
  const found: Removal[] = []
  let count = 0
  for (const text of selectors) {
    if (turn.isOver) await turn.next()
    const removal = removals.of(parsed(text, parseLimits))
    count += removal.measurements.length
    if (count > MAX_REMOVALS) throw refuse(`${selectors.length} selectors match more than ${MAX_REMOVALS} times a measurement; send fewer of them at a time`)
    found.push(removal)
  }
  return found
}

function parsed(text: string, limits: ParseLimits) {
  try {
    return parseSelector(text, limits)
  } catch (error) {
    throw error instanceof ParseError ? invalidParameter('match[]', error.message) : error
  }
}

export default removalJob
