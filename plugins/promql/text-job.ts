/** What is done with a query's text alone; beside the data, since a long text takes its time. */
import type { Job } from 'svcdb'
import { parsed } from './answer-query.ts'
import type { ParseLimits } from './parser/cursor.ts'
import { toJson } from './parser/json.ts'
import { pretty } from './parser/pretty.ts'

export interface TextArgs {
  query: string
  parseLimits: ParseLimits
  wanted: 'format' | 'tree' | 'check'
}

const textJob: Job<TextArgs, unknown> = async (_reader, { query, parseLimits, wanted }) => {
  const expr = parsed(query, parseLimits)
  if (wanted === 'check') return undefined
  return wanted === 'format' ? pretty(expr) : toJson(expr)
}

export default textJob
