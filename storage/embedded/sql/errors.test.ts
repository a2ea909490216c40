import t from 'tap'
import { filled, grows, processorMsOf } from '../../../test/support/growth.ts'
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

t.test('what a value says is not taken for what the system says', async (t) => {
  t.match(sqlError(new Error('IO Error: Could not write file "/tmp/x": No space left on device')), { code: 'STORAGE_FULL' })
  const wrapped = `Invalid Input Error: ${JSON.stringify({ exception_type: 'IO', exception_message: 'Could not write file: No space left on device' })}`
  t.match(sqlError(new Error(wrapped)), { code: 'STORAGE_FULL' }, 'of a source of rows')
  for (const value of ['No space left on device', 'max_temp_directory_size'])
    t.match(
      sqlError(new Error(`Conversion Error: Could not convert string '${value}' to INT32`)),
      { code: 'SQL_ERROR', message: /Could not convert string/ },
      value,
    )
})

const told = (text: string): string => (sqlError(new Error(text)) as Error).message.replace('cannot run this query: ', '')

t.test('paths, excerpts and generated names are left out', async (t) => {
  for (const [text, expected] of [
    ['Conversion Error: no int\n\nLINE 1: SELECT secret', 'no int'],
    ["Binder Error: in (read_parquet('/d/a.parquet')) of", 'in a measurement of'],
    ['Binder Error: no file /data/segments/1.parquet, and C:\\d\\2.parquet.', 'no file a segment, and a segment.'],
    ['Binder Error: x/y.parquet/z.parquet a/b', 'xa segment a/b'],
    ['Binder Error: __svc_scan of a.parquet', 'an internal function of a.parquet'],
  ])
    t.equal(told(text), expected)
})

t.test('a long value in a reason takes no time, and is cut', async (t) => {
  for (const item of ['/', '\n', ' ', 'read_parquet(', '(read_parquet()', '/.parquet', '__svc_', 'a:/', '\n LINE ', '😀']) {
    await grows(t, JSON.stringify(item), { bytes: 1_000_000 }, (bytes) =>
      processorMsOf(() => told(`Conversion Error: could not convert ${filled(bytes, item)}`)),
    )
    t.ok(told(`Conversion Error: could not convert ${filled(1_000_000, item)}`).length < 5000)
  }
})
