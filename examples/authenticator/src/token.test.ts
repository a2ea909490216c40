import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { definePlugin } from 'svcdb'
import { boot, ManualClock } from 'svcdb/testkit'
import signedTokens from './index.ts'
import { makeToken, readToken } from './token.ts'

const KEY = 'a key of more than thirty-two bytes'
const clock = new ManualClock()
const whoami = definePlugin({
  id: 'whoami',
  summary: 'Says who calls',
  stability: 'experimental',
  setup: (svc) => svc.http.get('/whoami', async (request) => ({ principal: svc.context(request).principal })),
})
const node = await boot({ plugins: [signedTokens, whoami], config: { signed_tokens: { key: KEY } }, clock })
after(() => node.stop())

const ask = (token?: string) => node.inject({ url: '/whoami', ...(token === undefined ? {} : { headers: { authorization: `Bearer ${token}` } }) })
const token = makeToken({ subject: 'ci', expiresAt: clock.now() + 60_000 }, KEY)

test('a signed token lets in, until it expires', async () => {
  const answer = await ask(token)
  assert.equal(answer.statusCode, 200, answer.body)
  assert.deepEqual(answer.json(), { principal: 'ci' })
  const late = await ask(makeToken({ subject: 'ci', expiresAt: clock.now() }, KEY))
  assert.equal(late.statusCode, 401)
  assert.equal(late.json().code, 'SIGNED_TOKEN_EXPIRED')
})

test('nobody else is let in', async () => {
  const [text, signature] = token.split('.')
  const other = makeToken({ subject: 'root', expiresAt: clock.now() + 60_000 }, KEY).split('.')[0]
  const forged = [
    `${other}.${signature}`,
    `${text}.`,
    text,
    `${text}.${signature}A`,
    `${token}=`,
    makeToken({ subject: 'ci', expiresAt: Infinity }, `${KEY}!`),
    `signed_${'a'.repeat(3000)}.b`,
  ]
  for (const bad of [undefined, 'another', ...forged]) assert.equal((await ask(bad)).statusCode, 401, bad)
})

test('each character of a token counts', () => {
  for (let at = 'signed_'.length; at < token.length; at++) {
    const changed = token.slice(0, at) + (token[at] === 'A' ? 'B' : 'A') + token.slice(at + 1)
    assert.equal((readToken(changed, KEY, 0) as { code?: string }).code, 'UNAUTHORIZED', changed)
  }
})
