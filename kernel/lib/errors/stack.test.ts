import t from 'tap'
import { SvcError } from './index.ts'

t.test('an error of a single point has no stack, as there may be a million of them in one request, nor has a refusal that anybody can ask for', async (t) => {
  const limit = Error.stackTraceLimit
  for (const code of ['INVALID_POINT', 'FUTURE_TIMESTAMP', 'SCHEMA_ERROR', 'CARDINALITY_EXCEEDED', 'RATE_LIMITED', 'UNAUTHORIZED', 'FORBIDDEN'] as const) {
    const error = new SvcError(code, 'it is refused')
    t.notMatch(error.stack, /\n/)
    t.match(error, { code, message: 'it is refused', name: 'SvcError' })
  }
  t.equal(Error.stackTraceLimit, limit)
  t.match(new SvcError('IO_ERROR', 'the disk is gone').stack, /stack\.test/)
})
