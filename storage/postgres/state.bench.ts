/**
 * State in PostgreSQL: time of a transaction, transactions a second, a list of 10,000 keys. In one table for all owners, in a table of the owner's own, and, for
 * comparison, by interactive transactions of isolation level SERIALIZABLE.
 *
 *   node storage/postgres/state.bench.ts
 */
import { setTimeout } from 'node:timers/promises'
import pg from 'pg'
import type { StateStore } from 'svcdb'
import { NO_POSTGRES, startPostgres } from '../../test/support/postgres.ts'
import { openState } from './testing.ts'

const SECONDS = 1
const ROUNDS = 5
const OTHERS = 4
const ROWS_OF_OTHERS = 50_000

type Transact = (key: string) => Promise<void>

const median = (times: number[]): number => times.sort((a, b) => a - b)[times.length >> 1]

/** A key is read, and another written. */
const byStore =
  (state: StateStore): Transact =>
  (key) =>
    state.transaction(async (tx) => {
      const before = (await tx.get<{ n: number }>(key)) ?? { n: 0 }
      tx.put(key, { n: before.n + 1, text: 'x'.repeat(200) })
    })

const serializable =
  (pool: pg.Pool): Transact =>
  async (key) => {
    for (let pause = 1; ; pause = Math.min(100, pause * 2)) {
      const client = await pool.connect()
      try {
        await client.query('BEGIN ISOLATION LEVEL SERIALIZABLE')
        const { rows } = await client.query({
          name: 'get',
          text: 'SELECT value FROM svc.state WHERE owner = $1 AND key = $2',
          values: ['own', Buffer.from(key)],
        })
        const n = rows.length === 0 ? 0 : (JSON.parse(rows[0].value.toString()) as { n: number }).n
        const value = Buffer.from(JSON.stringify({ n: n + 1, text: 'x'.repeat(200) }))
        await client.query({
          name: 'put',
          text: 'INSERT INTO svc.state VALUES ($1, $2, $3) ON CONFLICT (owner, key) DO UPDATE SET value = EXCLUDED.value',
          values: ['own', Buffer.from(key), value],
        })
        await client.query('COMMIT')
        return
      } catch (error) {
        await client.query('ROLLBACK')
        if (!['40001', '40P01'].includes((error as { code: string }).code)) throw error
      } finally {
        client.release()
      }
      await setTimeout(Math.random() * pause)
    }
  }

/** By what was measured and of what: each round's figure. */
const rounds = new Map<string, number[]>()

function note(name: string, what: string, figure: number): void {
  const key = `${name}: ${what}`
  rounds.set(key, [...(rounds.get(key) ?? []), figure])
}

async function measure(name: string, transacts: Transact[]): Promise<void> {
  const times: number[] = []
  for (let n = 0; n < 300; n++) {
    const since = performance.now()
    await transacts[0](`lone/${n % 10}`)
    times.push(performance.now() - since)
  }
  const rate = async (writers: number, key: (writer: number, n: number) => string, over = transacts.slice(0, 1)): Promise<number> => {
    const until = performance.now() + SECONDS * 1000
    let done = 0
    await Promise.all(
      Array.from({ length: writers }, async (_, writer) => {
        for (let n = 0; performance.now() < until; n++, done++) await over[writer % over.length](key(writer, n))
      }),
    )
    return Math.round(done / SECONDS)
  }
  const own = (writer: number, n: number) => `many/${writer}/${n % 50}`
  note(name, 'one after the other, ms at the median', median(times))
  note(name, 'one writer, /s', await rate(1, own))
  note(name, '64 writers, /s', await rate(64, own))
  if (transacts.length > 1) note(name, '64 writers by two nodes, /s', await rate(64, own, transacts))
  note(name, '64 writers on one key, /s', await rate(64, () => 'one'))
}

async function lists(name: string, state: StateStore): Promise<void> {
  await state.transaction((tx) => {
    for (let n = 0; n < 10_000; n++) tx.put(`list/${String(n).padStart(8, '0')}`, { n, text: 'x'.repeat(100) })
  })
  const times: number[] = []
  for (let n = 0; n < 20; n++) {
    const since = performance.now()
    const { length } = await state.list({ prefix: 'list/' })
    if (length !== 10_000) throw new Error(`${length} keys`)
    times.push(performance.now() - since)
  }
  note(name, '10,000 keys listed, ms', median(times))
}

const postgres = await startPostgres(['shared_buffers=128MB', 'max_connections=100'])
if (postgres === undefined) console.log(`skipped: ${NO_POSTGRES}`)
else {
  try {
    const url = await postgres.database()
    const nodes = [await openState(url), await openState(url)]
    const apart = [await openState(url, { schema: 'apart' }), await openState(url, { schema: 'apart' })]
    for (let other = 0; other < OTHERS; other++)
      await postgres.query(
        `INSERT INTO svc.state SELECT 'other${other}', convert_to('key/' || n, 'UTF8'), convert_to('{"n":' || n || '}', 'UTF8') FROM generate_series(1, ${ROWS_OF_OTHERS}) n`,
        url.split('/').at(-1),
      )
    await postgres.query('VACUUM ANALYZE', url.split('/').at(-1))
    const pool = new pg.Pool({ connectionString: url, max: 16 })
    for (let round = 0; round < ROUNDS; round++) {
      await measure(
        'one table',
        nodes.map((node) => byStore(node.state('own'))),
      )
      await measure(
        'a table an owner',
        apart.map((node) => byStore(node.state('own'))),
      )
      await measure('interactive SERIALIZABLE, 16 connections', [serializable(pool)])
      await lists('one table', nodes[0].state('lists'))
      await lists('a table an owner', apart[0].state('lists'))
    }
    for (const [key, figures] of rounds) {
      const sorted = figures.toSorted((a, b) => a - b)
      console.log(
        `${key}: ${[sorted[ROUNDS >> 1], sorted[0], sorted[ROUNDS - 1]].map((figure) => Number(figure.toPrecision(3))).join(', ')} (median, least, most)`,
      )
    }
    await pool.end()
    for (const node of [...nodes, ...apart]) await node.close()
  } finally {
    await postgres.stop()
  }
}
