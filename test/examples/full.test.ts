import t from 'tap'
import { runServer } from '../support/server.ts'

t.test('examples/full: written by one plugin, read by the others', async (t) => {
  const server = await runServer('examples/full/svc.toml')
  const json = { 'content-type': 'application/json' }
  const write = await fetch(`${server.url}/write?precision=s`, { method: 'POST', body: 'cpu,host=a usage=0.5 1700000000\ncpu,host=b usage=1.5 1700000000' })
  t.equal(write.status, 204)
  const rows = await fetch(`${server.url}/api/v1/svc/query`, { method: 'POST', headers: json, body: '{"measurement":"cpu","tags":{"host":"a"}}' })
  t.match(await rows.json(), [{ fields: { usage: 0.5 } }])
  const sql = await fetch(`${server.url}/api/v1/svc/sql`, { method: 'POST', headers: json, body: '{"query":"SELECT sum(usage) AS total FROM cpu"}' })
  t.match(await sql.json(), { rows: [[2]] })
  const prom = await fetch(`${server.url}/api/v1/query?query=sum(cpu_usage)&time=1700000000`)
  t.match(await prom.json(), { status: 'success', data: { resultType: 'vector', result: [{ value: [1700000000, '2'] }] } })
  t.equal(await server.stop(), 0)
})
