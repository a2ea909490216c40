/** The state store over a real PostgreSQL: the rules of all state stores, other processes, and what fails. SVC_SEED=<n> repeats a seed. */
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { followState, Secret } from 'svcdb'
import { stateHistory, stateRules } from 'svcdb/conformance'
import t, { type Test } from 'tap'
import { FaultyLink } from '../../test/support/faulty-link.ts'
import { freePort } from '../../test/support/free-port.ts'
import { NO_POSTGRES, startPostgres, type TestPostgres } from '../../test/support/postgres.ts'
import { eventually } from '../../test/support/until.ts'
import { idAt } from './commits.ts'
import { check, explain, urlsOf } from './config.ts'
import { Connections } from './connections.ts'
import type { PostgresState } from './postgres-state.ts'
import { contextOf, openState } from './testing.ts'
import { Loser } from './testing-loser.ts'

const seed = Number(process.env.SVC_SEED ?? Math.floor(Math.random() * 1e9))

t.test('what state.url may be', async (t) => {
  t.same(urlsOf('postgres://u:p%40@a:1,b/db?sslmode=require'), ['postgres://u:p%40@a:1/db?sslmode=require', 'postgres://u:p%40@b/db?sslmode=require'])
  for (const url of ['mysql://a/db', 'postgres:///db', 'postgres://a', 'postgres://u@a,/db', 'nonsense'])
    t.throws(() => check({ url: new Secret(url) }), { code: 'CONFIG_ERROR', message: /cannot use "state.url"/ }, url)
  // An option that is mistyped would leave the connection without TLS, and nobody would know.
  for (const [query, message] of [
    ['sslmod=verify-full', /an option behind the "\?" is unknown; did you mean "sslmode"\?$/],
    ['sslmode=verify_full', /sslmode is one of disable, prefer, require, verify-ca, verify-full, no-verify/],
    ['secret=1', /^(?!.*secret).* is unknown; the options are ssl, sslmode, /],
  ] as const)
    t.throws(() => check({ url: new Secret(`postgres://u@host/db?${query}`) }), { code: 'CONFIG_ERROR', message }, query)
  t.doesNotThrow(() => check({ url: new Secret('postgres://u@host/db?sslmode=verify-ca&sslrootcert=/ca.pem&target_session_attrs=read-write&lock_timeout=1s') }))
  t.throws(() => check({ url: new Secret('postgres://u:se/cret@host/db') }), { message: /^(?!.*(u:se|cret))/ })
  const shown = explain({ url: new Secret('postgres://u:secret@db.example:5433/state'), schema: 'svc' }).join('\n')
  t.match(shown, /db\.example:5433, database state, schema svc[\s\S]*not encrypted/)
  t.notMatch(shown, /secret/)
  t.notMatch(explain({ url: new Secret('postgres://u@127.0.0.1/state'), schema: 'svc' }).join(), /encrypted/)
})

t.test('a start that PostgreSQL does not let in says what to do', async (t) => {
  // AuthenticationSASL with SCRAM-SHA-256, and AuthenticationSASLContinue.
  const demands = [Buffer.from('R\0\0\0\x17\0\0\0\nSCRAM-SHA-256\0\0', 'latin1'), Buffer.from('R\0\0\0\x0a\0\0\0\x0br=', 'latin1')]
  const server = createServer((socket) => {
    let asked = 0
    socket.on('error', () => {}).on('data', () => socket.write(demands[asked++] ?? ''))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  const { PGPASSWORD } = process.env
  delete process.env.PGPASSWORD
  t.teardown(() => PGPASSWORD !== undefined && Object.assign(process.env, { PGPASSWORD }))
  const begun = performance.now()
  await t.rejects(openState(`postgres://u@127.0.0.1:${port}/db`, { retry_secs: 20 }), {
    code: 'CONFIG_ERROR',
    message: /wants a password; put it into state\.url, PGPASSWORD or ~\/\.pgpass$/,
  })
  t.ok(performance.now() - begun < 15_000, 'and does not wait for one')
  await t.rejects(openState(`postgres://u@127.0.0.1:${await freePort()}/db`, { retry_secs: 0 }), {
    message: /ECONNREFUSED.*; see that it runs, and that state\.url has its address$/,
  })
})

const postgres = await startPostgres()
if (postgres === undefined) t.test('over a real PostgreSQL', { skip: NO_POSTGRES }, async () => {})
else {
  t.teardown(() => postgres.stop())
  real(postgres)
}

function real(postgres: TestPostgres): void {
  const open = async (t: Test, url: string, more = {}): Promise<PostgresState> => {
    const state = await openState(url, more)
    t.teardown(() => state.close())
    return state
  }

  t.test('the rules of state stores', async (t) => {
    const url = await postgres.database()
    for (const [index, [rule, body]] of stateRules.entries()) await t.test(rule, async (t) => body(t, await open(t, url, { schema: `rule_${index}` })))
  })

  t.test('TLS that the server does not take is named', async (t) => {
    const url = await postgres.database()
    await t.rejects(openState(`${url}?sslmode=no-verify`, { retry_secs: 0 }), {
      message: /does not support SSL.*; switch ssl on there, or take sslmode out of state\.url$/,
    })
  })

  t.test('a commit waits for the disk, whatever the database is set to', async (t) => {
    const url = await postgres.database()
    const name = new URL(url).pathname.slice(1)
    await postgres.query(`ALTER DATABASE "${name}" SET synchronous_commit = off`)
    const connections = new Connections({ urls: [url], maxConnections: 1, connectTimeoutMs: 5000, statementTimeoutMs: 5000 })
    t.teardown(() => connections.close())
    const shown = await connections.run(async (client) => (await client.query('SHOW synchronous_commit')).rows)
    t.same(shown, [{ synchronous_commit: 'on' }])
  })

  t.test('what was stored is there after a close; a closed store refuses', async (t) => {
    const url = await postgres.database()
    const first = await open(t, url)
    await first.state('one').transaction((tx) => tx.put('key', { deep: [1], text: 'ä\ufeff\u0000' }))
    await first.close()
    await first.close()
    await t.rejects(first.state('one').get('key'), { code: 'DATABASE_CLOSED' })
    await t.rejects(
      first.state('one').transaction((tx) => tx.put('key', 1)),
      { code: 'DATABASE_CLOSED' },
    )
    const second = await open(t, url)
    t.same(await second.state('one').get('key'), { deep: [1], text: 'ä\ufeff\u0000' })
    await second.state('zwei').transaction((tx) => tx.put('key', 1))
    t.same(await second.owners(), ['one', 'zwei'])
    await t.rejects(
      second.state('one').transaction((tx) => tx.put('k'.repeat(2000), 1)),
      { code: 'INVALID_REQUEST' },
    )
  })

  t.test('transactions of several processes are as if one after the other', async (t) => {
    t.comment(`SVC_SEED=${seed}`)
    const url = await postgres.database()
    const states = [await open(t, url), await open(t, url)]
    const history = await stateHistory(
      states.map((state) => state.state('one')),
      { seed, workers: 8, transactions: 12 },
    )
    t.equal(history.stored, 2 * 8 * 12)
    const counters = states.map((state) => state.state('counter'))
    await Promise.all(
      counters.flatMap((state) => Array.from({ length: 40 }, () => state.transaction(async (tx) => tx.put('n', ((await tx.get<number>('n')) ?? 0) + 1)))),
    )
    t.equal(await counters[1].get('n'), 80)
    const lone = states[0].state('lone')
    const committed = async () => (await postgres.query<{ n: number }>('SELECT count(*)::int AS n FROM svc.commits', url.split('/').at(-1)))[0].n
    const before = await committed()
    await Promise.all(Array.from({ length: 64 }, () => lone.transaction(async (tx) => tx.put('n', ((await tx.get<number>('n')) ?? 0) + 1))))
    t.equal(await lone.get('n'), 64)
    const commits = (await committed()) - before
    t.ok(commits <= 12, `${commits} commits for 64 that change one thing`)
  })

  t.test('long lists, limits and many keys', async (t) => {
    const state = (await open(t, await postgres.database())).state('one')
    const key = (n: number) => `k/${String(n).padStart(5, '0')}`
    await state.transaction((tx) => {
      for (let n = 0; n < 3000; n++) tx.put(key(n), n)
    })
    t.equal((await state.list({ prefix: 'k/' })).length, 3000)
    t.same(
      (await state.list({ start: key(2998), limit: 10 })).map(({ value }) => value),
      [2998, 2999],
    )
    t.same(await state.list({ limit: 0 }), [])
    const first = await state.transaction(async (tx) => {
      tx.delete(key(0))
      tx.delete(key(2))
      tx.put(key(3), 'three')
      return (await tx.list({ prefix: 'k/', limit: 3 })).map(({ value }) => value)
    })
    t.same(first, [1, 'three', 4])
    await Promise.all([
      state.transaction(async (tx) => {
        for (const { key } of await tx.list({ prefix: 'k/' })) tx.delete(key)
      }),
      state.transaction((tx) => tx.put('k/new', 1)),
    ])
    t.ok((await state.list({ prefix: 'k/' })).length <= 1)
  })

  t.test('a commit whose answer is lost is looked up, and never done twice', async (t) => {
    const url = await postgres.database()
    await open(t, url)
    for (const lose of ['answer', 'request'] as const) {
      const loser = await Loser.to(postgres.port)
      t.teardown(() => loser.close())
      const state = await open(t, url.replace(`:${postgres.port}`, `:${loser.port}`))
      const one = state.state(lose)
      let runs = 0
      const add = (key: string) =>
        one.transaction(async (tx) => {
          runs++
          tx.put(key, ((await tx.get<number>(key)) ?? 0) + 1)
        })
      await add('n')
      loser.lose = [{ of: 'commit', what: lose }]
      await Promise.all([add('n'), add('m')])
      t.same(loser.lose, [], 'it was lost')
      t.same(await one.list(), [
        { key: 'm', value: 1 },
        { key: 'n', value: 2 },
      ])
      t.equal(runs, 3, 'no body ran again')
      await state.close()
    }
  })

  t.test('a commit that was lost, as was the answer to giving it up, is done again', async (t) => {
    const url = await postgres.database()
    const loser = await Loser.to(postgres.port)
    t.teardown(() => loser.close())
    const one = (await open(t, url.replace(`:${postgres.port}`, `:${loser.port}`))).state('one')
    await one.transaction((tx) => tx.put('n', 1))
    loser.lose = [
      { of: 'commit', what: 'request' },
      { of: 'giving up', what: 'answer' },
    ]
    await one.transaction((tx) => tx.put('n', 2))
    t.same(loser.lose, [], 'both were lost')
    t.equal(await one.get('n'), 2)
  })

  t.test('a commit whose answer is lost is not done twice beside a node whose clock is hours ahead', async (t) => {
    const url = await postgres.database()
    const loser = await Loser.to(postgres.port)
    t.teardown(() => loser.close())
    const one = (await open(t, url.replace(`:${postgres.port}`, `:${loser.port}`))).state('one')
    const add = () => one.transaction(async (tx) => tx.put('n', ((await tx.get<number>('n')) ?? 0) + 1))
    await add()
    const { now } = Date
    loser.lost = async () => {
      t.teardown(() => void (Date.now = now))
      Date.now = () => now() + 5 * 3_600_000
      await open(t, url)
      Date.now = now
    }
    loser.lose = [{ of: 'commit', what: 'answer' }]
    await add()
    t.same(loser.lose, [], 'it was lost')
    t.equal(await one.get('n'), 2)
  })

  t.test('whoever lists very much waits for itself: another owner is answered meanwhile', async (t) => {
    const state = await open(t, await postgres.database(), { max_connections: 8 })
    const [many, other] = [state.state('many'), state.state('other')]
    await many.transaction((tx) => {
      for (let i = 0; i < 300; i++) tx.put(`k/${i}`, i)
    })
    let answered = 0
    const lists = Array.from({ length: 1000 }, async () => {
      const { length } = await many.list({ prefix: 'k/' })
      answered++
      return length
    })
    const checks = Array.from({ length: 200 }, () =>
      many.transaction(async (tx) => (await tx.list({ prefix: 'k/', limit: 1 })).length + (await tx.list()).length),
    )
    await other.transaction(async (tx) => tx.put('beat', ((await tx.get<number>('beat')) ?? 0) + 1))
    t.ok(answered < 500, `after ${answered} of 1000`)
    t.same([...new Set(await Promise.all(lists))], [300])
    t.same([...new Set(await Promise.all(checks))], [301])
  })

  t.test('histories over a link that fails', async (t) => {
    t.comment(`SVC_SEED=${seed}`)
    const url = await postgres.database()
    const link = await FaultyLink.to(postgres.port)
    t.teardown(() => link.close())
    const failing = await open(t, url.replace(`:${postgres.port}`, `:${link.port}`), { statement_timeout_secs: 1, connect_timeout_secs: 1 })
    const sound = await open(t, url)
    let over = false
    const breakIt = async () => {
      for (let n = 0; !over; n++) {
        await new Promise((resolve) => setTimeout(resolve, 20))
        link.cut(n % 3 === 0 ? 0 : 500 + ((n * 977) % 9000))
        await new Promise((resolve) => setTimeout(resolve, 10))
        link.mend()
      }
    }
    const breaking = breakIt()
    const history = await stateHistory([sound.state('one'), failing.state('one')], { seed, workers: 6, transactions: 15, mayFail: true })
    over = true
    await breaking
    t.comment(JSON.stringify(history))
    t.ok(history.stored > 90, 'those over the sound link, and more')
  })

  t.test('a server that is away: 503 with Retry-After, and back by itself', async (t) => {
    const url = await postgres.database()
    const link = await FaultyLink.to(postgres.port)
    t.teardown(() => link.close())
    const state = (await open(t, url.replace(`:${postgres.port}`, `:${link.port}`), { retry_secs: 0.3 })).state('one')
    await state.transaction((tx) => tx.put('k', 1))
    link.cut()
    const away = { code: 'OVERLOADED', headers: { 'retry-after': '5' }, message: /PostgreSQL/ }
    await t.rejects(state.get('k'), away)
    await t.rejects(
      state.transaction(async (tx) => tx.put('k', await tx.get('k'))),
      away,
    )
    await t.rejects(
      state.transaction((tx) => tx.put('k', 2)),
      { ...away, message: /nothing has changed/ },
    )
    link.mend()
    t.equal(await state.get('k'), 1)
    await state.transaction((tx) => tx.put('k', 3))
    t.equal(await state.get('k'), 3)
  })

  t.test('a store is closed though its server stands still: what is under way fails', async (t) => {
    const own = await startPostgres()
    if (own === undefined) return
    t.teardown(() => own.stop())
    const state = await open(t, await own.database(), { statement_timeout_secs: 3600, connect_timeout_secs: 300 })
    const one = state.state('one')
    await one.transaction((tx) => tx.put('k', 1))
    const resume = own.pause()
    t.teardown(resume)
    const read = t.rejects(one.get('k'), { code: 'DATABASE_CLOSED' })
    const written = t.rejects(
      one.transaction((tx) => tx.put('k', 2)),
      { message: /it is closed|not known/ },
    )
    await state.close()
    await Promise.all([read, written])
  })

  t.test('a full disk is told as that, and nothing is half stored', async (t) => {
    const url = await postgres.database()
    const name = url.split('/').at(-1)
    const state = (await open(t, url)).state('one')
    await state.transaction((tx) => tx.put('a', 1))
    await postgres.query(
      `CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.key = 'full' THEN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END IF; RETURN NEW; END $$;
       CREATE TRIGGER full_disk BEFORE INSERT ON svc.state FOR EACH ROW EXECUTE FUNCTION full_disk()`,
      name,
    )
    const both = (key: string) =>
      state.transaction((tx) => {
        tx.put('a', 2)
        tx.put(key, 2)
      })
    await t.rejects(both('full'), { code: 'STORAGE_FULL', message: /disk of PostgreSQL is full/ })
    t.same(await state.list(), [{ key: 'a', value: 1 }])
    await both('b')
    t.equal((await state.list()).length, 2)
  })

  t.test('what another process commits is told, by key, in order, and not what this one does', async (t) => {
    const url = await postgres.database()
    const [here, there] = [await open(t, url), await open(t, url)]
    const told: (readonly string[] | undefined)[] = []
    const put = (state: PostgresState, owner: string, ...keys: string[]) =>
      state.state(owner).transaction((tx) => keys.forEach((key) => void tx.put(key, Math.random())))
    // As the plugin of each node does.
    await there.state('one').watch(['a/'], () => {})
    await there.state('two').watch([''], () => {})
    await put(there, 'one', 'a/before')
    // What was committed just before may be told, too.
    const end = await here.state('one').watch(['a/', 'c/'], (keys) => void (keys?.includes('a/before') || told.push(keys)))
    await put(there, 'two', 'a/of another')
    await put(there, 'one', 'b/not wanted')
    await put(there, 'one', 'a/1', 'b/1')
    await put(here, 'one', 'a/own')
    await there.state('one').transaction((tx) => tx.delete('a/1'))
    await eventually(() => told.length >= 2)
    t.same(told.splice(0), [['a/1'], ['a/1']])
    await Promise.all(Array.from({ length: 300 }, (_, n) => put(there, 'one', `a/many/${n}`)))
    await put(there, 'one', 'a/last')
    await eventually(() => told.flat().includes('a/last'))
    t.equal(new Set(told.splice(0).flat()).size, 301)
    await put(there, 'one', ...Array.from({ length: 1001 }, (_, n) => `a/${n}`))
    await eventually(() => told.length > 0)
    t.same(told.splice(0), [undefined], 'too many to be named')
    end()
    await put(there, 'one', 'a/2')
    const stillTold = await new Promise<boolean>(
      (resolve) =>
        void here
          .state('one')
          .watch(['a/'], () => resolve(true))
          .then(() => put(there, 'one', 'a/3')),
    )
    t.ok(stillTold)
    t.same(told, [])
  })

  t.test('who begins to watch while changes come is told nothing that has not changed', async (t) => {
    const url = await postgres.database()
    const [here, there] = [await open(t, url), await open(t, url)]
    const busy = there.state('busy')
    await there.state('busy').watch([''], () => {})
    await here.state('busy').watch([''], () => {})
    const told: unknown[] = []
    for (let i = 0; i < 60; i++) {
      const changes = Array.from({ length: 4 }, () => busy.transaction((tx) => tx.put('k', i)))
      await here.state(`of ${i}`).watch([''], (keys) => void told.push(keys))
      await Promise.all(changes)
    }
    t.same(told, [])
  })

  t.test('a connection that was lost: anything may have changed', async (t) => {
    const url = await postgres.database()
    const link = await FaultyLink.to(postgres.port)
    t.teardown(() => link.close())
    const there = await open(t, url)
    const here = await open(t, url.replace(`:${postgres.port}`, `:${link.port}`), { retry_secs: 0.2 })
    const copy = new Map<string, unknown>()
    const applied: unknown[] = []
    const state = here.state('one')
    const following = await followState(state, {
      prefixes: ['k/'],
      async apply(keys) {
        applied.push(keys)
        for (const key of keys ?? []) copy.set(key, await state.get(key))
        if (keys !== undefined) return
        copy.clear()
        for (const { key, value } of await state.list({ prefix: 'k/' })) copy.set(key, value)
      },
      failed() {},
    })
    await there.state('one').watch(['k/'], () => {})
    const put = (n: number) => there.state('one').transaction((tx) => tx.put('k/n', n))
    t.same(applied, [undefined])
    await put(1)
    await eventually(() => copy.get('k/n') === 1)
    t.same(applied, [undefined, new Set(['k/n'])])
    link.cut()
    await put(2)
    await new Promise((resolve) => setTimeout(resolve, 300))
    t.equal(copy.get('k/n'), 1)
    link.mend()
    await eventually(() => copy.get('k/n') === 2)
    await postgres.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`,
      url.split('/').at(-1),
    )
    await put(3)
    await eventually(() => copy.get('k/n') === 3)
    await following.stop()
    await put(4)
    t.equal(copy.get('k/n'), 3)
  })

  t.test('tables are made once, by whoever comes first, and by nobody else', async (t) => {
    const url = await postgres.database()
    const name = url.split('/').at(-1)
    await Promise.all(Array.from({ length: 5 }, () => open(t, url)))
    await postgres.query(
      `CREATE ROLE reader LOGIN; GRANT USAGE ON SCHEMA svc TO reader; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA svc TO reader`,
      name,
    )
    const reader = url.replace('svc@', 'reader@')
    const other = await open(t, reader)
    await other.state('one').transaction((tx) => tx.put('k', 1))
    await t.rejects(openState(reader, { schema: 'elsewhere' }), { code: 'CONFIG_ERROR', message: /CREATE SCHEMA elsewhere AUTHORIZATION/ })
    await postgres.query(`UPDATE svc.meta SET value = '99'`, name)
    await t.rejects(openState(url), { code: 'CONFIG_ERROR', message: /version 99.*newer svc/ })
  })

  t.test('old commits are forgotten, those of the last hours are kept', async (t) => {
    const url = await postgres.database()
    const name = url.split('/').at(-1)
    const first = await open(t, url)
    await first.state('one').transaction((tx) => tx.put('k', 1))
    const row = (byNode: number, byServer: number) => `('${idAt(Date.now() - byNode * 3_600_000)}', now() - interval '${byServer} hours')`
    await postgres.query(`INSERT INTO svc.commits (id, at) VALUES ${[row(1, 1), row(4, 4), row(400, 400), row(401, 0)]}`, name)
    const change = (owner: string, version: number, hours: number) => `('${owner}', ${version}, now() - interval '${hours} hours', '\\x01', '{}')`
    const changes = [change('one', 1, 9), change('one', 2, 8), change('one', 3, 1), change('two', 1, 9), change('two', 2, 8)]
    await postgres.query(`INSERT INTO svc.changes (owner, version, at, by, keys) VALUES ${changes}`, name)
    await open(t, url)
    t.equal((await postgres.query('SELECT FROM svc.commits', name)).length, 3, 'also one of a node whose clock is late')
    const left = await postgres.query<{ of: string }>(`SELECT owner || ' ' || version AS of FROM svc.changes ORDER BY 1`, name)
    t.same(
      left.map((row) => row.of),
      ['one 3', 'two 2'],
      'of changes the newest stays: the next one counts on from it',
    )
  })

  t.test('what will not pass by itself ends a start at once, and shows no secret', async (t) => {
    const url = await postgres.database()
    await t.rejects(openState(url.replace(/test_\d+$/, 'none')), { code: 'CONFIG_ERROR', message: /database "none" does not exist/ })
    await t.rejects(openState(url.replace('svc@', 'nobody:secret@')), { code: 'CONFIG_ERROR', message: /^(?!.*secret)/ })
    await postgres.query(`ALTER DATABASE ${url.split('/').at(-1)} SET default_transaction_read_only = on`)
    await t.rejects(openState(url, { retry_secs: 0.2 }), { code: 'OVERLOADED', message: /takes no writes/ })
    t.ok(contextOf(url).config)
  })

  t.test('of several hosts the one that takes writes is used', async (t) => {
    const url = await postgres.database()
    const dead = await FaultyLink.to(postgres.port)
    t.teardown(() => dead.close())
    dead.cut()
    const state = await open(t, url.replace('127.0.0.1:', `127.0.0.1:${dead.port},127.0.0.1:`))
    await state.state('one').transaction((tx) => tx.put('k', 1))
    t.equal(await state.state('one').get('k'), 1)
  })
}
