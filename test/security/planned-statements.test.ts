/** Statements that are only looked at, many of one tenant at one time: another's are answered between them and not behind them. */
import { boot } from 'svcdb/testkit'
import t from 'tap'
import { command, descriptor } from '../../plugins/flight_sql/testing.ts'
import { clientsOf } from '../support/clients.ts'
import keys from './tenant-keys.ts'

const MANY = 150
const EXPRESSIONS = 300
const FEW = 8

t.test('statements of one tenant that are described do not have those of another wait', { timeout: 180_000 }, async (t) => {
  const node = await boot({
    plugins: [keys, 'namespaces', 'line_protocol', 'sql', 'grpc', 'flight_sql'],
    storage: 'embedded',
    config: {
      server: { multi_tenancy: true, sql_query_timeout_secs: 3600 },
      database: { warm_up_ms: 0, query_threads: 1 },
      grpc: { addr: '127.0.0.1:0' },
      flight_sql: { addr: '127.0.0.1:0' },
    },
  })
  t.teardown(() => node.stop())
  const { flight } = clientsOf(t, node)
  const describe = async (who: string, query: string): Promise<void> => {
    const { error } = await flight.call('GetFlightInfo', descriptor(command('CommandStatementQuery', { 1: query })), { authorization: `Bearer ${who}` })
    if (error !== undefined) throw error
  }
  await describe('bob', 'SELECT 0')
  let answered = 0
  // No two alike: what is known of one statement is of no use to another.
  const large = (i: number) => `SELECT ${Array.from({ length: EXPRESSIONS }, (_, j) => `${j} + ${i} AS c${i}_${j}`).join(', ')}`
  const all = Promise.all(Array.from({ length: MANY }, (_, i) => describe('alice', large(i)).then(() => answered++)))
  while (answered === 0) await new Promise((resolve) => setTimeout(resolve, 1))
  const before = answered
  for (let i = 0; i < FEW; i++) await describe('bob', `SELECT ${i} AS b${i}`)
  const meanwhile = answered - before
  // A few for each of bob's: nearly all of them where they do not take turns.
  t.ok(meanwhile <= MANY / 2, `${meanwhile} of alice's ${MANY} were answered while bob asked for ${FEW}`)
  await all
})
