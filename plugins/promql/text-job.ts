/** What is done with a query's text alone; beside the data, since a long text takes its time. */
import type { Job } from 'svcdb'
import { parsed } from './answer-query.ts'
import { apiError } from './http/api-error.ts'
import type { ParseLimits } from './parser/cursor.ts'
import { toJson } from './parser/json.ts'
import { pretty } from './parser/pretty.ts'
import { selectorsIn } from './selectors-in.ts'

export interface TextArgs {
  query: string
  parseLimits: ParseLimits
  wanted: 'format' | 'tree' | 'selectors'
}

const textJob: Job<TextArgs, unknown> = async (_reader, { query, parseLimits, wanted }) => {
  // Without the name of the parameter, as Prometheus has it here.
  if (wanted === 'selectors') return selectorsIn(parsed(query, parseLimits, (text) => apiError('bad_data', text)))
  const expr = parsed(query, parseLimits)
  return wanted === 'format' ? pretty(expr) : toJson(expr)
}

export default textJob
