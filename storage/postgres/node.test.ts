/** Whole nodes whose points are in the embedded engine and whose state is in PostgreSQL; and moves of state between the two. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { InjectOptions } from 'fastify'
import type { Storage } from 'svcdb'
import { boot, Logs, readConfig, resolveConfig, run, SvcNode, temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import { NO_POSTGRES, startPostgres, type TestPostgres } from '../../test/support/postgres.ts'
import { openState } from './testing.ts'

type Asked = Pick<SvcNode, 'app'>
const ask = (node: Asked, request: string | InjectOptions) => node.app.inject(request)
const stateOf = (node: SvcNode) => (owner: string) => (node.storage as Storage).state(owner)
const PLUGINS = ['line_protocol', 'native', 'namespaces', 'remote_write', 'promql', 'triggers', 'rollups', 'webhooks', 'agent_plane']

const postgres = await startPostgres()
if (postgres === undefined) t.test('over a real PostgreSQL', { skip: NO_POSTGRES }, async () => {})
else {
  t.teardown(() => postgres.stop())
  real(postgres)
}

async function command(argv: string[]): Promise<{ code: number; out: string; err: string }> {
  const said = { out: '', err: '' }
  const code = await run(argv, {
    env: {},
    out: (text) => void (said.out += text),
    err: (text) => void (said.err += text),
    stopSignal: new Promise(() => {}),
  })
  return { code, ...said }
}

async function startNode(config: Awaited<ReturnType<typeof resolveConfig>>): Promise<SvcNode> {
  const node = new SvcNode(config, { logs: new Logs({ level: 'error', format: 'json', destination: { write() {} } }) })
  try {
    await node.setup()
    await node.start()
    return node
  } catch (error) {
    await node.stop()
    throw error
  }
}

function real(postgres: TestPostgres): void {
  /** As from a config file: on a data directory that stays. */
  const start = async (dataDir: string, url: string | undefined): Promise<SvcNode> => {
    const state = url === undefined ? {} : { state: { engine: 'postgres', url } }
    const tree = { plugins: PLUGINS, server: { http_addr: '127.0.0.1:0' }, database: { data_dir: dataDir, warm_up_ms: 0 }, agent_plane: {}, ...state }
    const config = await resolveConfig({ tree, file: 'the test', folder: process.cwd(), overrides: new Map() })
    return startNode(config)
  }
  const names = async (node: Asked): Promise<string[]> =>
    ((await ask(node, '/api/v1/namespaces')).json() as { namespaces: { name: string }[] }).namespaces.map(({ name }) => name).sort()
  const make = async (node: Asked, name: string): Promise<number> =>
    (await ask(node, { method: 'POST', url: '/api/v1/namespaces', payload: { name } })).statusCode

  t.test('a node keeps points here and state there, and starts again on both', async (t) => {
    const dataDir = temporaryFolder(t)
    const url = await postgres.database()
    let node = await start(dataDir, url)
    t.equal(await make(node, 'acme'), 201)
    t.equal((await ask(node, { method: 'POST', url: '/write', payload: 'cpu,host=a value=1' })).statusCode, 204)
    const metrics = (await ask(node, '/metrics')).body
    t.match(metrics, /svc_state_up 1/)
    t.same(await node.stop(), [])
    node = await start(dataDir, url)
    t.same(await names(node), ['acme', 'default'])
    t.equal((await ask(node, '/api/v1/query?query=cpu_value%20or%20cpu')).json().data.result.length, 1)
    t.same(await node.stop(), [])
    const state = await openState(url)
    t.teardown(() => state.close())
    t.ok((await state.owners()).includes('namespaces'))
    await t.rejects(start(dataDir, undefined), /moved to "postgres".*svc state copy --from postgres --to database/, 'its own state is out of date')
    await t.rejects(start(dataDir, await postgres.database()), /it is empty, and this database has used one that was not/)
  })

  t.test('state moves there and back, compared, and nobody starts on what is out of date', async (t) => {
    const dataDir = temporaryFolder(t)
    const url = await postgres.database()
    const file = join(temporaryFolder(t), 'svc.toml')
    await writeFile(file, `plugins = ["namespaces"]\n[database]\ndata_dir = "${dataDir}"\n[state]\nengine = "postgres"\nurl = "${url}"\n`)
    const copy = (from: string, to: string) => command(['state', 'copy', '--config', file, '--from', from, '--to', to])

    let node = await start(dataDir, undefined)
    t.equal(await make(node, 'acme'), 201)
    await stateOf(node)('owner').transaction((tx) => {
      for (let n = 0; n < 1234; n++) tx.put(`k/${n}/ü\u{1f600}`, { n })
    })
    t.match(await copy('database', 'postgres'), { code: 1, err: /open|lock|use/i }, 'a server runs on it')
    await node.stop()
    await t.rejects(start(dataDir, url), /it is empty, and this database has state of .*namespaces.*svc state copy --from database --to postgres/)

    // One that was broken off.
    const broken = await openState(url)
    await broken.state('kernel').transaction((tx) => tx.put('state/copying', true))
    await broken.state('stray').transaction((tx) => tx.put('k', 1))
    await broken.close()
    await t.rejects(start(dataDir, url), /half a copy/)

    t.match(await copy('database', 'postgres'), { code: 0, out: /copied and compared: \d+ entries of \d+ owners, from database to postgres/ })
    t.match(await copy('database', 'postgres'), { code: 1, err: /was moved to "postgres" and is out of date/ })
    node = await start(dataDir, url)
    t.same(await names(node), ['acme', 'default'])
    t.equal((await stateOf(node)('owner').list({ prefix: 'k/' })).length, 1234)
    t.same(await stateOf(node)('stray').list(), [])
    t.equal(await make(node, 'later'), 201)
    await node.stop()

    t.match(await copy('postgres', 'database'), { code: 0, out: /from postgres to database; remove the section \[state\]/ })
    await t.rejects(start(dataDir, url), /moved to "database"/)
    node = await start(dataDir, undefined)
    t.same(await names(node), ['acme', 'default', 'later'])
    t.equal((await stateOf(node)('owner').list({ prefix: 'k/' })).length, 1234)
    await node.stop()
    t.match(await copy('nowhere', 'postgres'), { code: 1, err: /--from and --to are database and postgres, one each/ })
  })

  t.test('a database with state of its own does not lose it to a store in use, and gives it up on purpose', async (t) => {
    const [first, second] = [temporaryFolder(t), temporaryFolder(t)]
    const url = await postgres.database()
    let node = await start(first, url)
    t.equal(await make(node, 'of-first'), 201)
    await node.stop()
    node = await start(second, undefined)
    t.equal(await make(node, 'of-second'), 201)
    await node.stop()
    await t.rejects(
      start(second, url),
      /cannot keep state in "postgres": it has been in use, and this database has state of its own, of .*namespaces.*svc state copy --from database --to postgres.*svc state discard --from database/,
    )
    node = await start(second, undefined)
    t.same(await names(node), ['default', 'of-second'], 'nothing was marked')

    const file = join(temporaryFolder(t), 'svc.toml')
    const write = (to: string) => writeFile(file, `plugins = ["namespaces"]\n[database]\ndata_dir = "${second}"\n[state]\nengine = "postgres"\nurl = "${to}"\n`)
    const discard = (from = 'database') => command(['state', 'discard', '--config', file, '--from', from])
    await write(url)
    t.match(await discard(), { code: 1, err: /open|lock|use/i }, 'a server runs on it')
    await node.stop()
    t.match(await discard('postgres'), { code: 1, err: /--from is database/ })
    await write(await postgres.database())
    t.match(await discard(), { code: 1, err: /there is none in "postgres" to go on with/ })
    await write(url)
    const other = await start(first, url)
    t.match(await discard(), { code: 0, out: /discarded: \d+ entries of \d+ owners/ }, 'while others run')
    node = await start(second, url)
    t.same(await names(node), ['default', 'of-first'])
    await node.stop()
    await other.stop()
  })

  t.test('a database keeps to the store that it has used, also where that moves there and back', async (t) => {
    const [first, second, third] = [temporaryFolder(t), temporaryFolder(t), temporaryFolder(t)]
    const [url, another] = [await postgres.database(), await postgres.database()]
    for (const [dataDir, at] of [
      [first, url],
      [second, url],
      [third, another],
    ]) {
      const node = await start(dataDir, at)
      await node.stop()
    }
    await t.rejects(start(first, another), /this database has used another one \(its id is .*set state back to where it was.*svc state discard/)
    const file = join(temporaryFolder(t), 'svc.toml')
    await writeFile(file, `plugins = ["namespaces"]\n[database]\ndata_dir = "${first}"\n[state]\nengine = "postgres"\nurl = "${url}"\n`)
    const copy = (from: string, to: string) => command(['state', 'copy', '--config', file, '--from', from, '--to', to])
    t.match(await copy('postgres', 'database'), { code: 0 })
    t.match(await copy('database', 'postgres'), { code: 0 })
    for (const dataDir of [first, second]) {
      const node = await start(dataDir, url)
      await node.stop()
    }

    // Of a server before there were ids.
    const state = await openState(url)
    await state.state('kernel').transaction((tx) => tx.put('state/in-use', { engine: 'database' }))
    await state.close()
    const node = await start(second, url)
    await node.stop()
    await t.rejects(start(second, another), /has used another one/)
  })

  t.test('the state of an edge moves as well', async (t) => {
    const dataDir = temporaryFolder(t)
    const url = await postgres.database()
    const file = join(temporaryFolder(t), 'svc.toml')
    const edge = `plugins = ["line_protocol", "remote_write"]\n[server]\nhttp_addr = "127.0.0.1:0"\n[database]\nengine = "forward"\ndata_dir = "${dataDir}"\n[[database.forward.upstream]]\nname = "up"\nurl = "http://127.0.0.1:1"\n`
    const there = `[state]\nengine = "postgres"\nurl = "${url}"\n`
    await writeFile(file, edge + there)
    const startEdge = async (toml: string): Promise<SvcNode> => {
      await writeFile(file, toml)
      return startNode(await resolveConfig(readConfig({ config: file }, {})))
    }
    const copy = async (from: string, to: string) => {
      await writeFile(file, edge + there)
      return command(['state', 'copy', '--config', file, '--from', from, '--to', to])
    }
    let node = await startEdge(edge)
    await stateOf(node)('an owner/of it').transaction((tx) => [1, 2, 3].forEach((n) => void tx.put(`k/${n}`, n)))
    await node.stop()
    await t.rejects(startEdge(edge + there), /this database has state of an owner\/of it/)
    t.match(await copy('database', 'postgres'), { code: 0, out: /copied and compared/ })
    await t.rejects(startEdge(edge), /moved to "postgres"/)
    node = await startEdge(edge + there)
    t.equal((await stateOf(node)('an owner/of it').list()).length, 3)
    await stateOf(node)('an owner/of it').transaction((tx) => tx.delete('k/1'))
    await node.stop()
    t.match(await copy('postgres', 'database'), { code: 0 })
    node = await startEdge(edge)
    t.equal((await stateOf(node)('an owner/of it').list()).length, 2)
    await node.stop()
  })

  t.test('commands read and write what is there, alone with it, and not what has moved', async (t) => {
    const dataDir = temporaryFolder(t)
    const url = await postgres.database()
    const files = temporaryFolder(t)
    const file = async (name: string, state: string) => {
      await writeFile(join(files, name), `plugins = ["agent_plane"]\n[agent_plane]\n[database]\ndata_dir = "${dataDir}"\n${state}`)
      return join(files, name)
    }
    const there = await file('there.toml', `[state]\nengine = "postgres"\nurl = "${url}"\nretry_secs = 0.2\n`)
    const here = await file('here.toml', '')
    const plane = (config: string, ...argv: string[]) => command(['plane', ...argv, '--config', config])
    const halt = (config: string) => plane(config, 'halt', 'tenant', '--reason', 'smoke', '--actor', 'ann')

    t.match(await plane(there, 'verify'), { code: 4, err: /names no store/ })
    t.same(await postgres.query(`SELECT FROM pg_namespace WHERE nspname = 'svc'`, url.split('/').at(-1)), [], 'who only reads makes nothing')

    let node = await start(dataDir, url)
    t.match(await plane(there, 'verify'), { code: 0, out: /0 of 0 runs whole/ })
    t.match(await halt(there), { code: 4, err: /nodes run on it \(\S+ \d+ at 127\.0\.0\.1\); stop them, or ask one of them over its API/ })
    await node.stop()

    t.match(await halt(there), { code: 0 })
    t.match(await halt(here), { code: 4, err: /cannot use the state in "database": it was moved to "postgres"/ })
    t.match(await plane(here, 'verify'), { code: 4, err: /moved to "postgres"/ })
    node = await start(dataDir, url)
    t.match(await stateOf(node)('agent_plane').list(), [{ value: { reason: 'smoke' } }])
    await node.stop()

    const alone = await openState(url, {}, 'exclusive')
    await t.rejects(openState(url, { retry_secs: 0.2 }), { code: 'CONFLICT', message: /a command works on it alone \(\S+ \d+ at 127\.0\.0\.1\)/ })
    await t.rejects(openState(url, {}, 'exclusive'), { code: 'CONFLICT' })
    const waits = openState(url)
    await alone.close()
    await (await waits).close()
  })

  t.test('check says where state would be, and what is wrong', async (t) => {
    const file = join(temporaryFolder(t), 'svc.toml')
    const check = async (state: string) => {
      await writeFile(file, `plugins = ["namespaces"]\n[database]\nengine = "memory"\n[state]\n${state}\n`)
      return command(['check', '--config', file])
    }
    const good = await check('engine = "postgres"\nurl = "postgres://svc:secret@db.example/state"')
    t.match(good, { code: 0, out: /state: PostgreSQL at db\.example, database state, schema svc[\s\S]*not encrypted/ })
    t.notMatch(good.out, /secret/)
    t.match(await check('engine = "postgres"'), { code: 1, err: /cannot find "state\.url"/ })
    t.match(await check('engine = "postgres"\nurl = "mysql://x/y"'), { code: 1, err: /cannot use "state\.url"/ })
    t.match(await check('engine = "postgress"'), { code: 1, err: /cannot find state store "postgress"/ })
    t.match(await check('engine = "embedded"'), { code: 1, err: /must export createState/ })
    t.match(await check('engine = "postgres"\nurl = "postgres://a/b"\npool = 3'), { code: 1, err: /cannot use "state\.pool"/ })
    t.match(await check('engine = "database"'), { code: 0 })
  })

  t.test('while PostgreSQL is away changes are refused and tried again, points go on', async (t) => {
    const dataDir = temporaryFolder(t)
    const own = await startPostgres()
    if (own === undefined) return
    t.teardown(() => own.stop())
    const node = await boot({
      plugins: PLUGINS,
      config: { database: { data_dir: dataDir }, agent_plane: {}, state: { engine: 'postgres', url: await own.database(), retry_secs: 0.5 } },
      storage: 'embedded',
    })
    t.teardown(() => node.stop())
    t.equal(await make(node, 'before'), 201)
    await own.kill()
    const refused = await ask(node, { method: 'POST', url: '/api/v1/namespaces', payload: { name: 'meanwhile' } })
    t.equal(refused.statusCode, 503)
    t.equal(refused.headers['retry-after'], '5')
    t.equal((await ask(node, { method: 'POST', url: '/write', payload: 'cpu value=1' })).statusCode, 204)
    await own.start()
    t.equal(await make(node, 'after'), 201)
    t.same(await names(node), ['after', 'before', 'default'])
  })
}
