import t from 'tap'
import { loadCedar } from './cedar-library.ts'
import { routesPlugin, startPolicies } from './testing.ts'

const ROUTES = routesPlugin([
  { method: 'GET', url: '/data' },
  { method: 'POST', url: '/data' },
])
type Line = { level: string; msg: string; policy?: string; principal?: string; err?: unknown; policies?: string[] }
const parsed = (lines: readonly string[]): Line[] => lines.map((line) => JSON.parse(line))

t.test('a policy that fails refuses the call, and is told once', async (t) => {
  const policies = 'permit(principal, action, resource);\nforbid(principal, action == Svc::Action::"Write", resource) when { Svc::User::"eve".name == "eve" };'
  const { as, lines, metric } = await startPolicies(t, policies, { plugins: [ROUTES] })
  for (const principal of ['ann', 'bob', 'ann']) {
    const answer = await as({ principal }, { method: 'POST', url: '/data' })
    t.match(answer, {
      status: 403,
      code: 'FORBIDDEN',
      error: /^cannot authorize "Write" on namespace "default" for "\w+": it cannot be told what the policies permit/,
    })
    t.notMatch(answer.error, /eve/)
  }
  t.equal((await as({ principal: 'ann' }, { url: '/data' })).status, 200)
  t.match(
    parsed(lines)
      .filter(({ level }) => level === 'warn' || level === 'error')
      .filter(({ msg }) => !msg.includes('plain text')),
    [{ level: 'warn', policy: 'all.cedar#2', principal: 'ann', msg: /^a policy failed/ }],
  )
  t.equal(await metric('svc_policy_decisions_total{outcome="malformed"}'), 3)
})

t.test('who is refused is said on one line, and the log says by which policy', async (t) => {
  const { as, lines } = await startPolicies(t, 'permit(principal, action, resource);\nforbid(principal, action, resource);', { plugins: [ROUTES] })
  const odd = await as({ principal: 'a"\n\u0000b' }, { url: '/data' })
  t.match(odd.error, 'for "a\\"\\n\\u0000b": ')
  const long = await as({ principal: 'x'.repeat(3000) }, { url: '/data' })
  t.match(long, { status: 403, error: /"x{128}\.\.\.": / })
  t.ok(parsed(lines).some(({ level, policies }) => level === 'debug' && policies?.join() === 'all.cedar#2'))
})

// The last: there is one engine in a process.
t.test('an engine that fails allows nothing', async (t) => {
  const { node, as, lines, metric } = await startPolicies(t, 'permit(principal, action, resource);', { plugins: [ROUTES] })
  t.equal((await as({ principal: 'ann' }, { url: '/data' })).status, 200)
  const cedar = await loadCedar()
  t.throws(() => cedar.checkParsePolicySet({ staticPolicies: `permit(principal, action, resource) when { ${'('.repeat(1000)}true${')'.repeat(1000)} };` }))
  for (let i = 0; i < 2; i++) {
    const answer = await as({ principal: 'bob' }, { url: '/data' })
    t.match(answer, { status: 500, code: 'INTERNAL_ERROR', error: 'INTERNAL_ERROR: an internal error occurred' })
  }
  t.match((await node.inject('/ready')).json(), { ready: false, reason: 'the policy engine has failed; restart the server' })
  t.ok(parsed(lines).some(({ level, msg, principal }) => level === 'error' && principal === 'bob' && msg.includes('could not be evaluated')))
  t.equal(await metric('svc_policy_decisions_total{outcome="error"}'), 2)
})
