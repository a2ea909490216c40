/** The plugin backup in front of ClickHouse. */
import { boot, type TestNode } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { NO_CHDB, startChdb } from '../../../test/support/clickhouse/clickhouse.ts'
import { testContext } from '../../conformance/index.ts'
import { ClickHouseEngine } from '../engine.ts'

t.test('backups over HTTP', { skip: NO_CHDB ?? false }, async (t) => {
  const server = await startChdb()
  t.teardown(() => server.stop())
  const node = async (t: Test, prefix: string, config: Record<string, unknown> = {}): Promise<TestNode> => {
    const clickhouse = { ...server.section, prefix, backup_disk: 'backups' }
    const storage = new ClickHouseEngine(testContext({ clickhouse }, Date.now))
    const running = await boot({ plugins: ['backup', 'line_protocol', 'promql'], storage, config })
    t.teardown(() => running.stop())
    return running
  }
  const post = async (on: TestNode, path: string, body: object) => {
    const answer = await on.inject({ method: 'POST', url: `/api/v1/admin/${path}`, payload: body })
    return { status: answer.statusCode, body: answer.json() }
  }
  const now = Math.floor(Date.now() / 1000)
  const ask = async (on: TestNode) => (await on.inject(`/api/v1/query?query=m&time=${now}`)).json().data.result
  const names = [`h${process.pid}`, `h${process.pid}_again`]

  const one = await node(t, names[0])
  t.equal((await one.inject({ method: 'POST', url: '/write', payload: `m,host=a value=1 ${now}000000000` })).statusCode, 204)
  const made = await post(one, 'backup', { target_dir: 'monday' })
  t.match(made, { status: 200, body: { version: 1, file_count: Number, total_bytes: Number } })
  t.ok(Math.abs(made.body.created_at - Date.now()) < 600_000)
  t.match(await post(one, 'backup', { target_dir: 'monday' }), { status: 409, body: { code: 'CONFLICT' } })
  t.same(await post(one, 'backup/verify', { backup_dir: 'monday' }), made)
  t.match(await post(one, 'restore', { backup_dir: 'monday', target_dir: names[0] }), { status: 400, body: { error: /it exists/ } })
  t.same(await post(one, 'restore', { backup_dir: `/${names[0]}/monday`, target_dir: names[1] }), made)
  for (const path of ['..', '../x', `/${names[0]}-of-another`, '/', '.', 'a\0b'])
    for (const [route, body] of [
      ['backup', { target_dir: path }],
      ['backup/verify', { backup_dir: path }],
      ['restore', { backup_dir: 'monday', target_dir: path }],
    ] as const)
      t.match(await post(one, route, body), { status: 400, body: { code: 'INVALID_REQUEST', error: /backup_root/ } }, `${route} ${path}`)
  const two = await node(t, names[1])
  t.same(await ask(two), await ask(one))
  t.equal((await ask(two)).length, 1)
  t.match((await one.inject('/metrics')).body, /^svc_backups_total 1$/m)

  // A link of this machine has nothing to say about names on that disk.
  const linked = await node(t, names[1], { server: { backup_root: '/proc/self' } })
  t.match(await post(linked, 'backup', { target_dir: 'cwd/x' }), { status: 200 })
  t.match(await post(linked, 'backup/verify', { backup_dir: '/proc/self/cwd/x' }), { status: 200 })

  const scheduled = node(t, names[1], { database: { checkpoints: { interval_secs: 60 } } })
  await t.rejects(scheduled, /database\.checkpoints\.interval_secs.*disk "backups" of ClickHouse.*set it to 0.*POST \/api\/v1\/admin\/backup/s)
})
