/** Transactions of one process that rest on what others of it are about to store, while that is held up, comes to nothing, or is too much for one commit. */
import pg from 'pg'
import t, { type Test } from 'tap'
import { NO_POSTGRES, startPostgres, type TestPostgres } from '../../test/support/postgres.ts'
import type { PostgresState } from './postgres-state.ts'
import { LOCKS } from './tables.ts'
import { openState } from './testing.ts'

const ROUNDS = 4

const postgres = await startPostgres()
if (postgres === undefined) t.test('over a real PostgreSQL', { skip: NO_POSTGRES }, async () => {})
else {
  t.teardown(() => postgres.stop())
  real(postgres)
}

function real(postgres: TestPostgres): void {
  const open = async (t: Test, url: string): Promise<PostgresState> => {
    const state = await openState(url)
    t.teardown(() => state.close())
    return state
  }

  /** Holds up all commits of an owner until it is called. */
  const heldUp = async (t: Test, url: string, owner: string): Promise<() => Promise<void>> => {
    const client = new pg.Client({ connectionString: url })
    await client.connect()
    t.teardown(() => client.end())
    await client.query(`SELECT pg_advisory_lock(${LOCKS.owners}, hashtext($1))`, [`svc/${owner}`])
    return async () => void (await client.query('SELECT pg_advisory_unlock_all()'))
  }

  t.test('two that change one thing get on when another process has overtaken the first', async (t) => {
    const url = await postgres.database()
    const [here, there] = [(await open(t, url)).state('one'), (await open(t, url)).state('one')]
    let runs = 0
    for (let round = 0; round < ROUNDS; round++) {
      await there.transaction((tx) => tx.put('n', 10))
      let overtaken: Promise<void> | undefined
      const begun = Promise.withResolvers<void>()
      const add = (isFirst: boolean) =>
        here.transaction(async (tx) => {
          runs++
          const n = (await tx.get<number>('n')) as number
          if (isFirst) await (overtaken ??= there.transaction((tx) => tx.put('n', 20)))
          tx.put('n', n + 1)
          // The other one begins when this is on its way.
          if (isFirst) setImmediate(begun.resolve)
        })
      const first = add(true)
      await begun.promise
      await Promise.all([first, add(false)])
      t.equal(await here.get('n'), 22)
    }
    // Five are needed: what the other one rests on is stale, and then the first is stored before it.
    t.ok(runs <= 8 * ROUNDS, `${runs} runs of two bodies, ${ROUNDS} times`)
  })

  t.test('two that change one thing get on when one before them is refused', async (t) => {
    const url = await postgres.database()
    const state = (await open(t, url)).state('one')
    await state.transaction((tx) => tx.put('n', 0))
    await postgres.query(
      `CREATE FUNCTION refused() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.key = 'no' THEN RAISE EXCEPTION 'no' USING ERRCODE = '53100'; END IF; RETURN NEW; END $$;
       CREATE TRIGGER refused BEFORE INSERT ON svc.state FOR EACH ROW EXECUTE FUNCTION refused()`,
      url.split('/').at(-1),
    )
    let runs = 0
    const add = (...more: string[]) =>
      state.transaction(async (tx) => {
        runs++
        tx.put('n', ((await tx.get<number>('n')) as number) + 1)
        for (const key of more) tx.put(key, 1)
      })
    const done = await Promise.allSettled([add('no'), add(), add()])
    t.same(
      done.map(({ status }) => status),
      ['rejected', 'fulfilled', 'fulfilled'],
    )
    t.equal(await state.get('n'), 2)
    t.ok(runs <= 12, `${runs} runs of three bodies`)
  })

  t.test('who only reads is not held up by a commit that is, and learns what is stored', async (t) => {
    const url = await postgres.database()
    const state = (await open(t, url)).state('one')
    await state.transaction((tx) => tx.put('n', 1))
    const release = await heldUp(t, url, 'one')
    const writes = state.transaction((tx) => tx.put('n', 2))
    let runs = 0
    const read = state.transaction(async (tx) => {
      runs++
      return [await tx.get('n'), (await tx.list()).length]
    })
    t.same(await read, [1, 1])
    t.ok(runs <= 2, `${runs} runs`)
    await release()
    await writes
    t.equal(await state.get('n'), 2)
  })

  t.test('of writes of one key that go together the last one stays', async (t) => {
    const state = (await open(t, await postgres.database())).state('one')
    const put = (value: number) => state.transaction((tx) => tx.put('k', value))
    const remove = () => state.transaction((tx) => tx.delete('k'))
    // The first is under way alone, and the others wait for it.
    await Promise.all([put(0), put(1), remove(), put(2), put(3)])
    t.equal(await state.get('k'), 3)
    await Promise.all([put(4), remove(), put(5)])
    t.equal(await state.get('k'), 5)
    await Promise.all([put(6), put(7), remove()])
    t.equal(await state.get('k'), undefined)
  })

  t.test('a commit takes what goes into one statement, and what is more goes with the next', async (t) => {
    const url = await postgres.database()
    const state = (await open(t, url)).state('one')
    const text = 'x'.repeat(400_000)
    await state.transaction((tx) => tx.put('before', 1))
    const commits = async () => (await postgres.query<{ n: number }>('SELECT count(*)::int AS n FROM svc.commits', url.split('/').at(-1)))[0].n
    const before = await commits()
    await Promise.all(Array.from({ length: 12 }, (_, i) => state.transaction((tx) => tx.put(`k/${i}`, text))))
    t.equal((await state.list({ prefix: 'k/' })).length, 12)
    const made = (await commits()) - before
    t.ok(made >= 4, `${made} commits of 4.8 MB`)
  })
}
