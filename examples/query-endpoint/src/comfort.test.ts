import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { boot } from 'svcdb/testkit'
import comfort from './index.ts'

const node = await boot({ plugins: [comfort, 'line_protocol', 'sql'], storage: 'embedded' })
after(() => node.stop())

const lines = ['climate,room=attic temperature=30,humidity=40 1', 'climate,room=cellar temperature=20,humidity=50 1', 'climate,room=cellar temperature=10 2']

test('the endpoint answers with the function', async () => {
  const written = await node.inject({ method: 'POST', url: '/write', payload: lines.join('\n') })
  assert.equal(written.statusCode, 204, written.body)
  const answer = await node.inject('/dew-point/climate')
  assert.equal(answer.statusCode, 200, answer.body)
  const [attic, cellar] = answer.json().rooms
  assert.equal(attic.room, 'attic')
  assert.ok(Math.abs(attic.dewPoint - 14.94) < 0.02, String(attic.dewPoint))
  assert.ok(Math.abs(cellar.dewPoint - 9.26) < 0.02, String(cellar.dewPoint))
})

test('every statement may call the function', async () => {
  const query = 'SELECT round(dew_point(20, 100), 6), dew_point(temperature, humidity) IS NULL FROM climate WHERE temperature = 10'
  const answer = await node.inject({ method: 'POST', url: '/api/v1/svc/sql', payload: { query } })
  assert.equal(answer.statusCode, 200, answer.body)
  assert.deepEqual(answer.json().rows, [[20, true]])
})

test('an unknown measurement is refused', async () => {
  const answer = await node.inject('/dew-point/nowhere')
  assert.equal(answer.statusCode, 400, answer.body)
  assert.equal(answer.json().code, 'SQL_ERROR')
})
