/** What a caller comes back to by a name is there for nobody else: not for another of the same namespace, and not for the same one in another. */
import type { CallContext, Svc } from 'svcdb'
import type { GrpcCall } from 'svcdb/lib/grpc'
import t from 'tap'
import { BoundedMap } from './bounded-map.ts'
import type { FlightSqlConfig } from './config.ts'
import { Queries } from './queries.ts'
import { Statements } from './statements.ts'

const contextOf = (principal: string, namespace: string): CallContext => ({
  ...{ principal, namespace, dataNamespace: namespace, method: 'test', claims: {}, roles: [], namespaces: [namespace], admin: false },
  ...{ requestId: '', address: undefined },
})
const ann = contextOf('ann', 'red')
const others = [contextOf('bob', 'red'), contextOf('ann', 'blue')]

t.test('a prepared statement', async (t) => {
  const statements = new Statements({ maxStatements: 10, maxBytes: 100_000, lifetimeMs: 1000 }, () => 0)
  const handle = statements.create({ query: 'SELECT ?', update: false, dictionaries: false }, ann)
  for (const other of others) {
    t.throws(() => statements.get(handle, other), { code: 'NOT_FOUND' })
    t.throws(() => statements.bind(handle, ['theirs'], other), { code: 'NOT_FOUND' })
    statements.close(handle, other)
  }
  t.match(statements.get(handle, ann), { query: 'SELECT ?', parameters: undefined })
  statements.bind(handle, ['own'], ann)
  t.same(statements.get(handle, ann).parameters, ['own'])
  statements.close(handle, ann)
  t.throws(() => statements.get(handle, ann), { code: 'NOT_FOUND' })
})

t.test('a query that is being answered', async (t) => {
  let cancelled = 0
  const run = () => {
    const ended = Promise.withResolvers<never>()
    ended.promise.catch(() => {})
    const output = { [Symbol.asyncIterator]: () => ({ next: () => ended.promise }) }
    const cancel = () => {
      cancelled++
      ended.reject(new Error('it was cancelled'))
    }
    return { output, result: ended.promise, cancel }
  }
  const metrics = { counter: () => ({ inc() {} }) }
  const svc = { metrics, storage: { run }, server: { sql_max_rows: 1, sql_query_timeout_secs: 1 } } as unknown as Svc
  const queries = new Queries(svc, { batch_rows: 1, batch_bytes: 1 } as FlightSqlConfig)
  const call = { context: ann, signal: new AbortController().signal } as GrpcCall<CallContext>
  const statement = { query: 'SELECT 1', parameters: undefined, dictionaries: false }
  const answers = ['x', ''].map((id) => queries.run(id, statement, call, async () => {}))
  for (const other of others) t.equal(queries.cancel('x', other), false)
  t.equal(queries.cancel('', ann), false, 'one without a ticket has no name')
  t.equal(cancelled, 0)
  t.equal(queries.cancel('x', ann), true)
  t.equal(cancelled, 1)
  await t.rejects(answers[0], { message: /the query was cancelled/ })
  t.equal(queries.cancel('x', ann), false, 'it has ended')
})

t.test('what finds no room takes none', async (t) => {
  const map = new BoundedMap<string>({ maxEntries: 10, maxWeight: 100, lifetimeMs: 1000 }, () => 0)
  const first = map.add('first', 40, 'a') as string
  t.equal(map.add('too much', 70, 'b'), undefined, 'the other has no more than its half')
  const second = map.add('second', 50, 'a') as string
  t.same([map.get(first), map.get(second), map.size], ['first', 'second', 2])
})
