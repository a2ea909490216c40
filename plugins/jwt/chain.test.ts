/** Tokens together with the API keys of the plugin that has them. */
import t from 'tap'
import apiKeys from '../api_keys/index.ts'
import { claimsOf, SECRET, sign, startNode } from './testing.ts'

const KEY = `svc_${'k'.repeat(43)}`
const DOTTED = `svc_${'d'.repeat(20)}.${'d'.repeat(11)}.${'d'.repeat(10)}`
const keys = [
  { name: 'plain', key: KEY },
  { name: 'dotted', key: DOTTED },
]

t.test('a key with two dots is a key only in a chain', async (t) => {
  const alone = await startNode(t, { secret: SECRET }, { auth: { api_keys: keys }, others: [apiKeys] })
  t.match(await alone.who(await sign(SECRET)), { status: 200, method: 'jwt' })
  t.match(await alone.who(KEY), { status: 200, method: 'api_key', principal: 'plain' })
  t.match(await alone.who(DOTTED), { status: 401, error: /cannot accept the token/ })
  t.match(await alone.who(await sign(SECRET, claimsOf({ exp: 1 }))), { status: 401, error: /it has expired/ })

  const chained = await startNode(t, { secret: SECRET }, { auth: { api_keys: keys, chain_auth: true }, others: [apiKeys] })
  t.match(await chained.who(await sign(SECRET)), { status: 200, method: 'jwt' })
  t.match(await chained.who(KEY), { status: 200, method: 'api_key' })
  t.match(await chained.who(DOTTED), { status: 200, method: 'api_key', principal: 'dotted' })
  const expired = await chained.who(await sign(SECRET, claimsOf({ exp: 1 })))
  t.match(expired, { status: 401, code: 'UNAUTHORIZED' })
  t.notMatch(expired.error, /cannot accept the token/, 'the answer is that of the keys')
  t.equal(await chained.metric('svc_jwt_verifications_total{result="expired"}'), 1)
})
