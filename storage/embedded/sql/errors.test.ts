import t from 'tap'
import { sqlError } from './errors.ts'

t.test('too little memory is said in our words, also where rows of ours found none', (t) => {
  const full = `failed to allocate data of size 16.0 MiB (240.0 MiB/255.5 MiB used)\n\nPossible solutions:\n* Increasing the memory limit (SET memory_limit='...GB')`
  // DuckDB wraps what a table function met into an error of its own.
  const wrapped = `Invalid Input Error: ${JSON.stringify({ exception_type: 'Out of Memory', exception_message: full })}`
  for (const text of [`Out of Memory Error: ${full}`, wrapped])
    t.match(sqlError(new Error(text)), { code: 'SQL_ERROR', message: /^cannot run this query: it needs more memory than per_query_memory_limit allows/ }, text)
  t.match(sqlError(new Error('Invalid Input Error: out of memory, says a caller')), { message: 'cannot run this query: out of memory, says a caller' })
  t.end()
})
