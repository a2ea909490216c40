import { SvcError } from 'svcdb/lib/errors'
import t from 'tap'
import { engineError, isOutOfMemory } from './duckdb.ts'
import { raise, raised } from './raised.ts'

/** As DuckDB hands on what one of our functions has told it. */
const handedOn = (error: unknown): Error => engineError(new Error(`Invalid Input Error: ${raise(error)}`))

t.test('an error of ours comes through DuckDB as it was', async (t) => {
  t.match(handedOn(new SvcError('QUERY_TIMEOUT', 'too late')), { code: 'QUERY_TIMEOUT', message: 'too late' })
  t.match(handedOn(new RangeError('no such row')), { code: 'INTERNAL_ERROR', message: 'no such row' })
  t.match(handedOn(new SvcError('INVALID_REQUEST', 'two\nlines')), { code: 'INVALID_REQUEST', message: 'two\nlines' })
  t.match(handedOn(new SvcError('INVALID_REQUEST', 'no tag "out of memory"')), { code: 'INVALID_REQUEST', message: 'no tag "out of memory"' })
  t.equal(raised(new Error('Invalid Input Error: svc:NO_SUCH: text of a statement')), undefined)
})

t.test('when DuckDB has no memory for what a function of ours gives it, the statement is refused for that', async (t) => {
  const error = handedOn(
    new Error('{"exception_type":"Out of Memory","exception_message":"failed to allocate data of size 16.0 MiB (112.2 MiB/127.7 MiB used)"}'),
  )
  t.match(error, { code: 'OVERLOADED', message: /needs more memory/ })
  t.ok(isOutOfMemory(error))
})
