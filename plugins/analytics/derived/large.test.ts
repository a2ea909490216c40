/** Derived series of many or large rows, and rows among them that are refused. */
import t from 'tap'
import { lookUntil } from '../../../test/support/until.ts'
import { call, node, write } from '../models/testing.ts'

const PATH = '/api/v1/analytics/derived'
const SECOND = 1_000_000_000n
const now = BigInt(Math.floor(Date.now() / 1000)) * SECOND
const analytics = { derived_interval_secs: 1 }

const count = async (one: Parameters<typeof call>[0], measurement: string): Promise<number> =>
  (await call(one, 'POST', '/api/v1/svc/sql', { query: `SELECT count(*) FROM ${measurement}` })).body.rows?.[0][0] ?? 0

t.test('rows of many fields are written, however few of them a write has room for', async (t) => {
  const one = await node(t, { analytics, config: { server: { max_body_size: 131_072 } } })
  const fields = Array.from({ length: 200 }, (_, i) => `f${i}`)
  for (let part = 0; part < 10; part++)
    await write(
      one,
      Array.from({ length: 30 }, (_, i) => `wide ${fields.map((name) => `${name}=1`)} ${now - BigInt(part * 30 + i) * SECOND}`),
    )
  const query = `SELECT _time, ${fields.map((name) => `${name} * 2 AS ${name}`)} FROM wide WHERE _time >= $1 AND _time < $2`
  t.equal((await call(one, 'POST', PATH, { name: 'twice', query, every_secs: 1 })).status, 201)
  t.equal(
    await lookUntil(
      () => count(one, 'twice'),
      (rows) => rows === 300,
    ),
    300,
  )
  // The rows are to be seen a little before how far the statement was evaluated.
  const derived = async () => (await call(one, 'GET', PATH)).body.derived[0]
  t.match(await lookUntil(derived, ({ evaluated_until }) => typeof evaluated_until === 'number'), { last_error: null, evaluated_until: Number })
})

t.test('rows that are refused are told, and hold up no others', async (t) => {
  const one = await node(t, { analytics, config: { database: { max_tag_value_bytes: 64 } } })
  const line = (i: number, text: string): string => `log text="${text}",v=1 ${now - (BigInt(5000 - i) * SECOND) / 10n}`
  await write(one, [line(0, 'x'.repeat(100)), ...Array.from({ length: 4999 }, (_, i) => line(i + 1, `${i % 10}`))])
  const query = 'SELECT _time, text, v FROM log WHERE _time >= $1 AND _time < $2'
  t.equal((await call(one, 'POST', PATH, { name: 'texts', query, every_secs: 1 })).status, 201)
  t.equal(
    await lookUntil(
      () => count(one, 'texts'),
      (rows) => rows === 4999,
    ),
    4999,
  )
  const derived = async () => (await call(one, 'GET', PATH)).body.derived[0]
  t.match(await lookUntil(derived, ({ last_error }) => last_error?.includes('rejected')), {
    last_error: /1 rejected; first: .*max_tag_value_bytes/,
    evaluated_until: Number,
  })
})
