import { type Random, seeded } from 'svcdb/lib/random'
import t from 'tap'
import { fuzz } from './decide.fuzz.ts'
import type { PolicyEngine } from './engine.ts'
import { ipOf } from './ip-address.ts'
import type { Question } from './request.ts'
import { fuzz as fuzzScopes } from './scope.fuzz.ts'
import { engineOf, question, setOf } from './testing.ts'

const read = (condition: string): string => `permit(principal, action == Svc::Action::"Read", resource) when { ${condition} };`
type More = Parameters<typeof question>[0]
const allowed = (engine: PolicyEngine, more: More = {}): boolean => engine.decide(question(more))?.outcome === 'allow'

t.test('what policies may look at', async (t) => {
  const day = Date.UTC(2026, 0, 2, 3, 4, 5)
  const table: [condition: string, yes: More[], no: More[]][] = [
    ['principal.name == "ann"', [{}], [{ context: { principal: 'bob' } }]],
    ['resource.name like "team-*"', [{ namespace: 'team-1' }], [{ namespace: 'other' }]],
    ['context.roles.contains("ops")', [{ context: { roles: ['dev', 'ops'] } }, { context: { roles: ['ops', 'ops'] } }], [{}, { context: { roles: ['op'] } }]],
    ['context has tenant && context.tenant == "acme"', [{ context: { claims: { tenant_id: 'acme' } } }], [{}, { context: { claims: { tenant_id: 7 } } }]],
    ['!(context has tenant)', [{}, { context: { claims: { tenant_id: 7 } } }], [{ context: { claims: { tenant_id: '' } } }]],
    ['context.method == "jwt"', [{ context: { method: 'jwt' } }], [{}]],
    ['context.route == "/write"', [{ route: '/write' }], [{}]],
    ['context.request_id == "r7"', [{ context: { requestId: 'r7' } }], [{}]],
    ['context.hour >= 8 && context.hour < 18', [{ now: Date.UTC(2026, 5, 1, 17, 59) }], [{ now: day }, { now: Date.UTC(2026, 5, 1, 18) }]],
    ['context.timestamp < datetime("2026-01-03")', [{ now: day }], [{ now: day + 86_400_000 }]],
    [
      'context has ip_address && context.ip_address.isInRange(ip("10.0.0.0/8"))',
      [{ context: { address: '10.1.2.3' } }, { context: { address: '::ffff:10.1.2.3' } }, { context: { address: '0:0:0:0:0:FFFF:0a01:0203' } }],
      [
        { context: { address: '11.0.0.1' } },
        { context: { address: undefined } },
        { context: { address: '/run/svc.sock' } },
        { context: { address: '::ffff:11.1.2.3' } },
      ],
    ],
    ['context has ip_address && context.ip_address.isInRange(ip("fe80::/10"))', [{ context: { address: 'fe80::1%eth0' } }], [{ context: { address: '::1' } }]],
    ['context == context && context.hour == 3', [{ now: day }], [{ now: day + 3_600_000 }]],
  ]
  for (const [condition, yes, no] of table) {
    const engine = await engineOf(read(condition))
    for (let twice = 0; twice < 2; twice++) {
      for (const more of yes) t.ok(allowed(engine, more), `${condition} allows ${JSON.stringify(more)}`)
      for (const more of no) t.notOk(allowed(engine, more), `${condition} refuses ${JSON.stringify(more)}`)
    }
    engine.close()
  }
})

t.test('addresses', async (t) => {
  t.equal(ipOf('::ffff:127.0.0.1'), '127.0.0.1')
  t.equal(ipOf('::FFFF:7f00:1'), '127.0.0.1')
  t.equal(ipOf('2001:DB8::0:1'), '2001:db8::1')
  t.equal(ipOf('::1.2.3.4'), '::102:304')
  for (const none of [undefined, '', 'unknown', '1.2.3', '1.2.3.4:80', '[::1]']) t.equal(ipOf(none), undefined)
})

t.test('decisions are remembered where that is sound', async (t) => {
  const kept = async (text: string, a: More, b: More) => {
    const engine = await engineOf(text)
    engine.decide(question(a))
    const evaluation = engine.decide(question(b))
    engine.close()
    return evaluation?.cached
  }
  const other = { context: { requestId: 'r2', address: '10.0.0.1', method: 'jwt', claims: { tenant_id: 'b' } }, route: '/other', now: 0 }
  t.equal(await kept(read('principal.name == "ann"'), {}, other), true, 'no policy looks at the context')
  t.equal(await kept(read('context.roles.contains("x")'), {}, other), true, 'nor at anything but the roles')
  for (const more of [
    { context: { principal: 'bob' } },
    { context: { roles: ['x'] } },
    { namespace: 'red' },
    { action: 'Write' as const },
    { namespace: undefined, action: 'ViewCluster' as const },
  ])
    t.equal(await kept(read('true'), {}, more), false, JSON.stringify(more))
  t.equal(await kept(read('context.method == "x"'), {}, { context: { requestId: 'r2' }, now: 1 }), true)
  t.equal(await kept(read('context.method == "x"'), {}, { context: { method: 'x' } }), false)
  t.equal(await kept(read('context has tenant'), {}, { context: { claims: { tenant_id: 'x' } } }), false)
  t.equal(await kept(read('context.route == "/x"'), {}, { route: '/x' }), false)
  t.equal(await kept(read('context has ip_address'), {}, { context: { address: '10.0.0.9' } }), false)
  t.equal(await kept(read('context.hour == 3'), {}, { now: Date.UTC(2026, 0, 2, 3, 59) }), true)
  t.equal(await kept(read('context.hour == 3'), {}, { now: Date.UTC(2026, 0, 2, 4) }), false)
  for (const condition of ['context.request_id == "x"', 'context.timestamp > datetime("2020-01-01")', 'context == context', '{a: context}.a.hour == 3'])
    t.equal(await kept(read(condition), {}, {}), false, condition)
  t.equal(await kept(read('{"Var": "context"} == {"Var": "context"}'), {}, other), true, 'text that says context is no use of it')
  const several = `${read('true')}\nforbid(principal, action, resource) unless { context.request_id like "r*" };`
  t.equal(await kept(several, {}, {}), false, 'one policy is enough')
})

/** Conditions over all parts of the context, the last two of which no decision can be remembered for. */
const CONDITIONS = [
  'context.hour < 12',
  'context has ip_address && context.ip_address.isLoopback()',
  'context has tenant && context.tenant == "a"',
  'context.method == "jwt"',
  'context.route == "/a"',
  'context.roles.contains("a")',
  'principal in Svc::Role::"b"',
  'principal.name == "a"',
  'context.timestamp < datetime("2026-01-01T12:00:00Z")',
  'context.request_id == "a"',
]
const pick = <T>(random: Random, list: readonly T[]): T => list[Math.floor(random() * list.length)]

function randomQuestion(random: Random): Question {
  const words = ['a', 'b', 'c']
  const data = random() < 0.7
  return question({
    action: data ? pick(random, ['Read', 'Write', 'Delete'] as const) : pick(random, ['ManageKeys', 'ViewCluster'] as const),
    namespace: data ? pick(random, words) : undefined,
    route: `/${pick(random, words)}`,
    now: Date.UTC(2026, 0, 1, Math.floor(random() * 24)),
    context: {
      principal: pick(random, words),
      roles: words.filter(() => random() < 0.4),
      method: pick(random, ['jwt', 'api_key']),
      claims: random() < 0.5 ? {} : { tenant_id: pick(random, words) },
      address: pick(random, [undefined, '127.0.0.1', '10.0.0.1']),
      requestId: pick(random, words),
    },
  })
}

t.test('an engine that remembers answers as one that does not', async (t) => {
  const seed = Date.now() % 1e9
  const random = seeded(seed)
  t.comment(`seed ${seed}`)
  let cached = 0
  for (let round = 0; round < 12; round++) {
    // Every other set is one whose decisions can be remembered.
    const conditions = round % 2 === 0 ? CONDITIONS.slice(0, -2) : CONDITIONS
    const questions = Array.from({ length: 100 }, () => randomQuestion(random))
    const text = Array.from({ length: 1 + Math.floor(random() * 4) }, () => {
      const scope = pick(random, ['action', 'action == Svc::Action::"Read"', 'action in Svc::Action::"Admin"'])
      return `${pick(random, ['permit', 'permit', 'forbid'])}(principal, ${scope}, resource) when { ${pick(random, conditions)} };`
    }).join('\n')
    const remembering = await engineOf(text, 50)
    const plain = await engineOf(text, 0)
    for (let i = 0; i < 400; i++) {
      const asked = pick(random, questions)
      const answer = remembering.decide(asked)
      if (answer?.cached) cached++
      const expected = plain.decide(asked)?.outcome
      if (answer?.outcome !== expected) t.fail(`seed ${seed}: ${text} ${JSON.stringify(asked)}: ${answer?.outcome}, expected ${expected}`)
    }
    t.ok(remembering.cacheSize <= 50)
    remembering.close()
    plain.close()
  }
  t.ok(cached > 100, `${cached} were remembered`)
})

t.test('a policy that fails allows nothing', async (t) => {
  const permits = 'permit(principal, action, resource);'
  const failing = await engineOf(`${permits}\nforbid(principal, action, resource) when { Svc::User::"eve".name == "eve" };`)
  t.match(failing.decide(question()), { outcome: 'malformed', errors: [{ policy: 'p.cedar#2', message: /entity `Svc::User::"eve"` does not exist/ }] })
  t.equal(failing.decide(question({ context: { principal: 'eve' } }))?.outcome, 'deny')
  const overflow = await engineOf(`${permits}\n${read('context.hour + 9223372036854775807 > 0')}`)
  t.equal(overflow.decide(question())?.outcome, 'malformed')
  t.equal(overflow.decide(question({ action: 'Write' }))?.outcome, 'allow', 'where it is not asked it does not matter')
})

t.test('what is no Unicode text is nobody', async (t) => {
  const engine = await engineOf('permit(principal, action, resource) unless { context has tenant && context.tenant == "x" };')
  for (const context of [{ principal: '\ud800' }, { roles: ['a', '\udc00'] }, { claims: { tenant_id: 'x\ud800' } }])
    for (let twice = 0; twice < 2; twice++) t.equal(engine.decide(question({ context }))?.outcome, 'malformed')
  t.equal(engine.decide(question({ context: { principal: '\ufffd' } }))?.outcome, 'allow')
})

t.test('a set takes the place of another at once, and forgets what was decided', async (t) => {
  const engine = await engineOf(read('true'))
  t.ok(allowed(engine))
  engine.activate(await setOf('forbid(principal, action, resource);'))
  t.match(engine.decide(question()), { outcome: 'deny', cached: false, policies: ['p.cedar#1'] })
  t.equal(engine.epoch, 2)
  t.throws(() => engine.activate({ policies: new Map([['x', { text: 'permit(', scope: { principal: {}, action: {}, resource: {} } }]]), contextUse: [] }))
  t.equal(engine.decide(question())?.outcome, 'deny', 'one that cannot be used changes nothing')
  engine.close()
  t.equal(engine.decide(question()), undefined)
  engine.close()
})

t.test('a set that is used as a whole, for its length, takes the place of one like it', async (t) => {
  const long = (names: string) => Array.from({ length: 100 }, (_, i) => read(`principal.name == "${names}${i}"`)).join('\n')
  const engine = await engineOf(long('ann'))
  for (const names of ['bob', 'eve', 'ann']) {
    engine.activate(await setOf(long(names)))
    for (const asked of ['ann', 'bob', 'eve'])
      t.equal(allowed(engine, { context: { principal: `${asked}7` } }), asked === names, `${asked} by that of ${names}`)
  }
  engine.close()
})

t.test('engines do not share policies, and the least used decision goes first', async (t) => {
  const one = await engineOf(read('true'), 2)
  const other = await engineOf('forbid(principal, action, resource);')
  t.ok(allowed(one))
  t.notOk(allowed(other))
  other.close()
  const cached = (principal: string) => one.decide(question({ context: { principal } }))?.cached
  t.same([cached('a'), cached('b'), cached('a'), cached('c'), cached('a'), cached('b')], [false, false, true, false, true, false])
  cached('x'.repeat(5000))
  t.equal(cached('x'.repeat(5000)), false, 'what is too long is not kept')
})

t.test('names are data, whatever is in them', async (t) => {
  const seed = Date.now() % 1e9
  const counts = await fuzz(seed, (questions) => questions < 1000)
  t.comment(`seed ${seed}: ${JSON.stringify(counts)}`)
  for (const count of Object.values(counts)) t.ok(count > 0)
})

t.test('policies that cannot apply are left out, and nothing comes out differently', async (t) => {
  const seed = Date.now() % 1e9
  const counts = await fuzzScopes(seed, (questions) => questions < 900)
  t.comment(`seed ${seed}: ${JSON.stringify(counts)}`)
  for (const count of Object.values(counts)) t.ok(count > 0)
})
