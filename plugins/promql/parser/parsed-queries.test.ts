import t from 'tap'
import { parse } from './parse.ts'
import { ParseError } from './parse-error.ts'
import { ParsedQueries } from './parsed-queries.ts'

const LIMITS = { maxLength: 1000, maxDepth: 100 }

t.test('a query that is asked again is not parsed again', async (t) => {
  const queries = new ParsedQueries()
  const tree = queries.get('sum(rate(a[5m]))', LIMITS)
  t.same(tree, parse('sum(rate(a[5m]))', LIMITS))
  t.equal(queries.get('sum(rate(a[5m]))', LIMITS), tree)
  t.not(queries.get('sum(rate(a[6m]))', LIMITS), tree)
})

t.test('limits hold for a text that was parsed under others', async (t) => {
  const queries = new ParsedQueries()
  queries.get('((((a))))', LIMITS)
  t.throws(() => queries.get('((((a))))', { maxLength: 5, maxDepth: 100 }), ParseError)
  t.throws(() => queries.get('sum(', LIMITS), ParseError)
  t.throws(() => queries.get('sum(', LIMITS), ParseError, 'again')
})

t.test('those not asked for longest make room', async (t) => {
  const queries = new ParsedQueries(30)
  const a = queries.get('a', LIMITS) // with its limits each takes ten characters
  const b = queries.get('b', LIMITS)
  queries.get('c', LIMITS)
  t.equal(queries.get('a', LIMITS), a)
  queries.get('d', LIMITS)
  t.equal(queries.get('a', LIMITS), a)
  t.not(queries.get('b', LIMITS), b)
})
