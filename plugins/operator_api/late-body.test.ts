/** A body that arrives when its caller may ask no more. */
import { systemClock } from 'svcdb/testkit'
import t from 'tap'
import { lateHttp } from '../../test/security/late-requests.ts'
import { until } from '../../test/support/until.ts'
import { ACTORS, startApi, tokenOf } from './testing.ts'

/** Smaller bodies are not. */
const COUNTED = 20_000

t.test('a token whose time is over while the body arrives is refused, and nothing is done', async (t) => {
  let aheadMs = 0
  const actors = { ...ACTORS, ann: { roles: ['admin'], not_after: new Date(Date.now() + 60_000).toISOString() } }
  const { node, as } = await startApi(t, [], { actors, clock: { ...systemClock, now: () => Date.now() + aheadMs } })
  const held = async () => Number(/^svc_http_body_bytes (\d+)/m.exec((await node.inject('/metrics')).body)?.[1])
  const begun = async (name: string) => {
    const [before, body] = [await held(), JSON.stringify({ scope: `agent:${name}`, reason: 'a flood' }).padEnd(COUNTED)]
    const late = await lateHttp(node, { authorization: `Bearer ${tokenOf(name)}` }, '/api/v1/plane/halts', 'application/json', body)
    await until('all but the end of its body', async () => (await held()) > before)
    return late
  }
  const [ann, bob] = [await begun('ann'), await begun('bob')]
  aheadMs = 61_000
  t.equal(await ann.finish(), '401')
  t.same((await as('rita').get('/halts')).body.halts, [])
  t.equal(await bob.finish(), '200', 'one who may still ask')
})
