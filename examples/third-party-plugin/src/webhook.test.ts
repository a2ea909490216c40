import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { boot } from 'svcdb/testkit'
import webhook from './index.ts'
import { checkReading } from './reading.ts'

const node = await boot({ plugins: [webhook], config: { webhook: { measurement: 'doorbell', max_fields: 2 } } })
after(() => node.stop())

const post = (source: string, body: unknown) => node.inject({ method: 'POST', url: `/hooks/${source}`, payload: body as object })

test('a reading is stored and read back', async () => {
  assert.equal((await post('porch', { battery: 81, rings: 1 })).statusCode, 204)
  assert.equal((await post('porch', { rings: 2 })).statusCode, 204)
  const answer = await node.inject('/hooks/porch/latest')
  assert.equal(answer.statusCode, 200, answer.body)
  assert.deepEqual(answer.json().reading, { battery: 81, rings: 2 })
})

test('sources are apart, and an unknown one is 404', async () => {
  const answer = await node.inject('/hooks/garage/latest')
  assert.equal(answer.statusCode, 404)
  assert.equal(answer.json().code, 'NOT_FOUND')
})

test('what is no reading is refused, and nothing of it is stored', async () => {
  for (const body of [{}, { a: 1, b: 2, c: 3 }, { a: 'x' }, [1]]) {
    const answer = await post('gate', body)
    assert.equal(answer.statusCode, 422, JSON.stringify(body))
    assert.equal(answer.json().code, 'INVALID_BODY')
  }
  assert.equal((await node.inject('/hooks/gate/latest')).statusCode, 404)
  assert.throws(() => checkReading({ a: Number.NaN }, 1), { code: 'INVALID_BODY' })
})

test('readings are counted', async () => {
  assert.match((await node.inject('/metrics')).body, /^svc_webhook_readings_total 2$/m)
})
