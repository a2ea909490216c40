/** The plugin by its routes. */
import { boot } from 'svcdb/testkit'
import t from 'tap'
import { start } from './testing.ts'

const now = BigInt(Math.floor(Date.now() / 1000)) * 1_000_000_000n
const at = (seconds: number): string => String(now - 3600n * 1_000_000_000n + BigInt(seconds) * 1_000_000_000n)

t.setTimeout(300_000)
t.test('without its section the routes answer 404', async (t) => {
  const node = await boot({ plugins: ['triggers'] })
  t.teardown(() => node.stop())
  for (const url of ['/api/v1/triggers', '/api/v1/triggers/x', '/api/v1/signals', '/api/v1/annotations', '/api/v1/annotations/stream'])
    t.match((await node.inject(url)).json(), { code: 'NOT_FOUND' }, url)
})

for (const storage of ['memory', 'embedded']) {
  t.test(`statements, signals and their shapes, ${storage}`, async (t) => {
    const { node, run, write, settled, signals } = await start(t, { storage })
    t.same(await run("CREATE TRIGGER hot ON cpu WHEN usage > 90 AND host = 'a' DELIVER log COOLDOWN INTERVAL '5m'"), {
      status: 200,
      body: { message: 'trigger "hot" is created' },
    })
    t.match(await run('CREATE TRIGGER hot ON cpu WHEN usage > 1'), { status: 409, body: { code: 'CONFLICT' } })
    t.match(await run('CREATE TRIGGER any ON cpu WHEN usage > 90'), { status: 200 })
    const item = {
      name: 'hot',
      measurement: 'cpu',
      enabled: true,
      delivery: ['log'],
      condition: "usage > 90 AND host = 'a'",
      cooldown_secs: 300,
    }
    const listed = await run('SHOW TRIGGERS')
    t.same(listed.body.triggers, [{ ...item, name: 'any', delivery: [], condition: 'usage > 90' }, item], 'by name')
    t.same((await node.inject('/api/v1/triggers')).json(), listed.body)
    t.same((await node.inject('/api/v1/triggers/hot')).json(), item)
    t.match(await node.inject('/api/v1/triggers/cold'), { statusCode: 404 })

    await write([`cpu,host=a usage=95,idle=1i ${at(0)}`, `cpu,host=b usage=95.5 ${at(1)}`, `cpu,host=a usage=50 ${at(2)}`, `mem,host=a usage=99 ${at(2)}`])
    const found = await settled(3)
    t.same(found.map(({ trigger_name, tags, value }) => [trigger_name, tags.host, value]).sort(), [
      ['any', 'a', 95],
      ['any', 'b', 95.5],
      ['hot', 'a', 95],
    ])
    const [signal] = found.filter(({ trigger_name }) => trigger_name === 'hot')
    t.match(signal, {
      event_id: /^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
      trigger_id: /^[0-9a-f-]{36}$/,
      measurement: 'cpu',
      tags: { host: 'a' },
      timestamp: Number(at(0)),
      signal_type: 'trigger',
      severity: 'critical',
      metadata: { condition: "usage > 90 AND host = 'a'" },
    })
    t.match((await node.inject('/api/v1/signals')).body, `"timestamp":${at(0)},`, 'all digits')
    t.same(await signals('?limit=1'), found.slice(-1), 'the newest')
    t.same(await signals('?limit=1&offset=1'), found.slice(1, 2))
    t.same(await signals(`?before=${found[2].metadata.sequence}`), found.slice(0, 2))

    await run('ALTER TRIGGER any DISABLE')
    await write(`cpu,host=c usage=99 ${at(3)}`)
    t.match((await node.inject('/api/v1/triggers/any')).json(), { enabled: false })
    await run('ALTER TRIGGER any ENABLE')
    await write(`cpu,host=d usage=99 ${at(4)}`)
    t.same(
      (await settled(4)).slice(3).map(({ tags }) => tags.host),
      ['d'],
      'what was written while it was disabled is not judged',
    )
    t.match(await run('ALTER TRIGGER none ENABLE'), { status: 400 })
    t.match(await run('DROP TRIGGER none'), { status: 400 })
    t.match(await node.inject({ method: 'DELETE', url: '/api/v1/triggers/none' }), { statusCode: 400 })
    t.same((await node.inject({ method: 'DELETE', url: '/api/v1/triggers/hot' })).json(), { message: 'trigger "hot" is dropped' })
    t.same(await run('DROP TRIGGER any'), { status: 200, body: { message: 'trigger "any" is dropped' } })
    t.same((await run('SHOW TRIGGERS')).body, { triggers: [] })
    await write(`cpu,host=z usage=99 ${at(9)}`)
    t.equal((await settled(4)).length, 4, 'dropped triggers do not fire')
    t.match(await node.inject({ method: 'POST', url: '/api/v1/triggers', payload: { query: 'SHOW TRIGGERS', x: 1 } }), { statusCode: 422 })
  })
}
