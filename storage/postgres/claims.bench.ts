/**
 * What four nodes that take work from one queue get through: as the agent plane does it, a slice of the queue and then a transaction for each lease; by the same
 * with slices that begin in different places; and by a statement with FOR UPDATE SKIP LOCKED of its own, which a state store cannot have.
 *
 *   node storage/postgres/claims.bench.ts
 */
import pg from 'pg'
import type { StateStore } from 'svcdb'
import { NO_POSTGRES, startPostgres, type TestPostgres } from '../../test/support/postgres.ts'
import { openState } from './testing.ts'

const NODES = 4
const SLICE = 32
const RUNS = 2000
const ROUNDS = 3

type Claim = (node: number) => Promise<number>

const run = (n: number): string => String(n).padStart(6, '0')

/** @param apart whether each node begins in a place of its own. */
function byTransactions(states: readonly StateStore[], apart: boolean): Claim {
  return async (node) => {
    const state = states[node]
    const start = apart ? `due/${run((node * RUNS) / NODES)}` : 'due/'
    let due = await state.list({ prefix: 'due/', start, limit: SLICE })
    if (apart && due.length < SLICE) due = [...due, ...(await state.list({ prefix: 'due/', end: start, limit: SLICE - due.length }))]
    const taken = await Promise.all(
      due.map(({ key }) =>
        state.transaction(async (tx) => {
          const lease = `lease/${key.slice('due/'.length)}`
          if ((await tx.get(key)) === undefined || (await tx.get(lease)) !== undefined) return 0
          tx.delete(key)
          tx.put(lease, { epoch: 1, holder: `node ${node}`, until: 1 })
          return 1
        }),
      ),
    )
    return due.length === 0 ? -1 : taken.reduce<number>((sum, one) => sum + one, 0)
  }
}

function bySkipLocked(pools: readonly pg.Pool[]): Claim {
  const text = `WITH due AS (
  DELETE FROM svc.state WHERE (owner, key) IN (
    SELECT owner, key FROM svc.state WHERE owner = 'queue' AND key >= 'due/' AND key < 'due0' ORDER BY key LIMIT ${SLICE} FOR UPDATE SKIP LOCKED
  ) RETURNING key
) INSERT INTO svc.state SELECT 'queue', 'lease/'::bytea || substr(key, 5), $1 FROM due RETURNING key`
  return async (node) => {
    const { rowCount } = await pools[node].query({ name: 'claim', text, values: [Buffer.from(`{"epoch":1,"holder":"node ${node}","until":1}`)] })
    return rowCount === 0 ? -1 : (rowCount as number)
  }
}

async function measure(postgres: TestPostgres, database: string, claim: Claim, nodes = NODES): Promise<string> {
  await postgres.query(
    `DELETE FROM svc.state WHERE owner = 'queue'; INSERT INTO svc.state SELECT 'queue', convert_to('due/' || lpad(n::text, 6, '0'), 'UTF8'), 'null' FROM generate_series(0, ${RUNS - 1}) n`,
    database,
  )
  await postgres.query('VACUUM svc.state', database)
  const since = performance.now()
  const claimed = await Promise.all(
    Array.from({ length: nodes }, async (_, node) => {
      let sum = 0
      for (let got = await claim(node); got >= 0; got = await claim(node)) sum += got
      return sum
    }),
  )
  const seconds = (performance.now() - since) / 1000
  const total = claimed.reduce((sum, one) => sum + one, 0)
  if (total !== RUNS) throw new Error(`${total} of ${RUNS} were claimed`)
  return `${Math.round(RUNS / seconds)}/s (${claimed.join(', ')})`
}

const postgres = await startPostgres(['shared_buffers=128MB', 'max_connections=100'])
if (postgres === undefined) console.log(`skipped: ${NO_POSTGRES}`)
else {
  try {
    const url = await postgres.database()
    const nodes = []
    for (let node = 0; node < NODES; node++) nodes.push(await openState(url))
    const states = nodes.map((node) => node.state('queue'))
    const pools = nodes.map(() => new pg.Pool({ connectionString: url, max: 2 }))
    const ways: [string, Claim][] = [
      ['slices and transactions', byTransactions(states, false)],
      ['slices that begin apart, and transactions', byTransactions(states, true)],
      ['FOR UPDATE SKIP LOCKED', bySkipLocked(pools)],
    ]
    const database = url.split('/').at(-1) as string
    for (let round = 0; round < ROUNDS; round++) {
      console.log(`slices and transactions by one node: ${await measure(postgres, database, ways[0][1], 1)}`)
      for (const [name, claim] of ways) console.log(`${name}: ${await measure(postgres, database, claim)}`)
    }
    for (const pool of pools) await pool.end()
    for (const node of nodes) await node.close()
  } finally {
    await postgres.stop()
  }
}
