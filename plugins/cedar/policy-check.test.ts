import { run } from 'svcdb/testkit'
import t from 'tap'
import { checkInThread } from './check-thread.ts'
import { MAX_LEVELS } from './policy-shape.ts'
import { engineOf, policyFolder, problemsInThread, problemsOf, question } from './testing.ts'

const policy = (condition: string): string => `permit(principal, action == Svc::Action::"Read", resource) when { ${condition} };`

t.test('what is unknown is refused with the place and the nearest name', async (t) => {
  const table: [text: string, problem: RegExp][] = [
    [
      'permit(principal, action == Svc::Action::"Raed", resource);',
      /^p\.cedar:1:29: unrecognized action `Svc::Action::"Raed"`; did you mean `Svc::Action::"Read"`\?$/,
    ],
    ['permit(principal, action == Action::"Read", resource);', /^p\.cedar:1:29: unrecognized action.*did you mean `Svc::Action::"Read"`\?$/],
    ['permit(principal in Svc::Rol::"x", action, resource);', /^p\.cedar:1:21: unrecognized entity type `Svc::Rol`; did you mean `Svc::Role`\?$/],
    ['// ünï\n\npermit(principal is User, action, resource);', /^p\.cedar:3:21: unrecognized entity type `User`; did you mean `Svc::User`\?$/],
    ['permit(principal, action, resource == Svc::System::"other");', /^p\.cedar:1:39: .*not declared as a valid eid; valid entity eids: "svc"$/],
    [policy('principal.nam == "x"'), /^p\.cedar:1:67: attribute `nam` on entity type `Svc::User` not found; did you mean `name`\?$/],
    [policy('context.ip == ip("10.0.0.1")'), /attribute `ip` in context/],
    [policy('context.hour > "nine"'), /^p\.cedar:1:82: unexpected type: expected Long but saw String$/],
    [policy('context.ip_address.isLoopback()'), /optional attribute `ip_address`.*context has ip_address/],
    [policy('ip(context.request_id).isLoopback()'), /extension constructors may not be called with non-literal expressions/],
    [policy('context has ip_address && context.ip_address == ip("10.0.0.300")'), /failed to parse as IP address/],
    ['permit(principal, action, resource', /^p\.cedar:1:35: unexpected end of input/],
    ['permit(principal, action, resource);\nforbid(principl, action, resource);', /^p\.cedar:2:8: found an invalid variable in the policy scope: principl/],
    ['permit(principal == ?principal, action, resource);', /^p\.cedar: there is a template, with \?principal/],
    [policy('"ü" == context.routes'), /^p\.cedar:1:74: attribute `routes` in context.*did you mean `route`\?$/],
  ]
  for (const [text, problem] of table) {
    const problems = await problemsOf(text)
    t.equal(problems.length, 1, text)
    t.match(problems[0], problem)
  }
  t.same(await problemsOf(''), [])
  t.same(await problemsOf('// nothing but a comment'), [])
})

t.test('all problems of all files are told, each once', async (t) => {
  const { problems } = await checkInThread([
    { name: 'a.cedar', text: 'permit(principal, action, resource) when { context.ip_address.isLoopback() };' },
    { name: 'b.cedar', text: 'permit(principal, action, resource);' },
    { name: 'c.cedar', text: 'permit(' },
    { name: 'd.cedar', text: 'permit(principal is Svc::Usr, action, resource);\npermit(principal, action == Svc::Action::"Del", resource);' },
  ])
  t.same(
    problems.map((line) => line.split(' ', 1)[0]),
    ['a.cedar:1:44:', 'c.cedar:1:8:', 'd.cedar:1:21:', 'd.cedar:2:29:'],
  )
})

t.test('policies that never apply are warned of', async (t) => {
  const { problems, warnings } = await checkInThread([{ name: 'p.cedar', text: 'permit(principal, action == Svc::Action::"Admin", resource);' }])
  t.same(problems, [])
  t.match(warnings.join('\n'), /^p\.cedar:1:1: unable to find an applicable action/)
})

t.test('policies keep their order, however many there are', async (t) => {
  const count = 112
  const text = Array.from({ length: count }, (_, i) => `permit(principal == Svc::User::"u${i}", action, resource);`).join('\n')
  const { set } = await checkInThread([
    { name: 'a.cedar', text },
    { name: '__proto__.cedar', text: 'permit(principal == Svc::User::"p", action, resource);' },
  ])
  t.equal(set.policies.size, count + 1)
  for (const i of [0, 1, 2, 9, 10, 11, 99, 100, 111]) t.match(set.policies.get(`a.cedar#${i + 1}`)?.text, `"u${i}"`)
  t.match(set.policies.get('__proto__.cedar#1')?.text, '"p"')
})

/** Conditions of about `levels` levels. */
const SHAPES: Record<string, (levels: number) => string> = {
  or: (n) => policy(Array.from({ length: n }, (_, i) => `principal.name == "x${i}"`).join(' || ')),
  and: (n) => policy(Array.from({ length: n }, (_, i) => `principal.name != "x${i}"`).join(' && ')),
  plus: (n) => policy(`${Array(n).fill('context.hour').join(' + ')} > 0`),
  if: (n) => policy(`${'if context.hour == 77 then false else '.repeat(n)}true`),
  dates: (n) => policy(`context.timestamp${'.toDate()'.repeat(n)} == context.timestamp`),
  clauses: (n) => `permit(principal, action == Svc::Action::"Read", resource) ${'when { context.hour >= 0 } '.repeat(n)};`,
}
const NESTED: Record<string, (levels: number) => string> = {
  parentheses: (n) => policy(`${'('.repeat(n)}true${')'.repeat(n)}`),
  not: (n) => policy(`${'!(context.hour == 77 || '.repeat(n)}true${')'.repeat(n)}`),
  records: (n) => policy(`${'{a: '.repeat(n)}1${'}'.repeat(n)}${'.a'.repeat(n)} == 1`),
  sets: (n) => policy(`${'['.repeat(n)}1${']'.repeat(n)} == ${'['.repeat(n)}1${']'.repeat(n)}`),
  differences: (n) => policy(`${'(context.hour == 1) != ('.repeat(n)}true${')'.repeat(n)}`),
}

t.test('what is nested too deep is refused, and whatever is not can be evaluated', async (t) => {
  for (const [shape, make] of Object.entries({ ...SHAPES, ...NESTED })) {
    for (const levels of [400, 5000]) t.equal((await problemsInThread(make(levels))).length, 1, `${shape} of ${levels}`)
    let low = 1
    for (const levels of [149, 125, 120, 100, 74, 60, 40]) {
      if ((await problemsInThread(make(levels))).length > 0) continue
      low = levels
      break
    }
    t.ok(low >= 40, `${shape}: up to ${low} levels are taken`)
    const engine = await engineOf(make(low))
    t.same(engine.decide(question())?.errors, [], shape)
    engine.close()
  }
  t.match((await problemsInThread(SHAPES.or(MAX_LEVELS + 50)))[0], /^p\.cedar#1: it is more than 150 levels deep; use sets/)
  const engine = await engineOf(policy('true'))
  t.equal(engine.decide(question())?.outcome, 'allow', 'the engine that decides has seen none of the others')
})

async function svc(...args: string[]): Promise<{ code: number; out: string; err: string }> {
  const text = { out: '', err: '' }
  const code = await run(args, { env: {}, out: (s) => void (text.out += s), err: (s) => void (text.err += s), stopSignal: Promise.resolve('SIGTERM') })
  return { code, ...text }
}

t.test('svc policy check', async (t) => {
  const good = policyFolder(t, { 'a.cedar': 'permit(principal, action, resource);', 'b.cedar': 'forbid(principal, action == Svc::Action::"Admin", resource);' })
  t.match(await svc('policy', 'check', good), { code: 0, out: '2 policies in 2 files can be used\n', err: /warning: b\.cedar:1:1: / })
  t.match(await svc('policy', 'check', `${good}/a.cedar`), { code: 0, out: '1 policy in 1 file can be used\n', err: '' })
  const bad = policyFolder(t, {
    'a.cedar': 'permit(principal, action == Svc::Action::"Wrte", resource);',
    'svc.toml': `plugins = ["cedar"]\n[authorization]\npolicy_dir = "${good}"\n`,
    'none.toml': 'plugins = ["cedar"]\n',
    'without.toml': 'plugins = ["sql"]\n',
  })
  t.match(await svc('policy', 'check', bad), {
    code: 1,
    out: '',
    err: /^a\.cedar:1:29: .*did you mean `Svc::Action::"Write"`\?\nsvc: cannot use the policies of ".*": there is a problem\n$/,
  })
  t.match(await svc('policy', 'check', '--config', `${bad}/svc.toml`), { code: 0, out: /^2 policies/ })
  t.match(await svc('policy', 'check', '--config', `${bad}/none.toml`), {
    code: 1,
    err: /^svc: cannot authorize callers: there are no policies; set authorization\.policy_dir/,
  })
  t.match(await svc('policy', 'check', '--config', `${bad}/without.toml`), { code: 1, err: /the config does not select plugin "cedar"/ })
  t.match(await svc('policy', 'check', `${bad}/none`), { code: 1, err: /^svc: cannot check policies ".*none": ENOENT/ })
  t.match(await svc('policy', 'explain'), { code: 1, err: /write svc policy check DIR/ })
  t.match(await svc('policy', 'check', policyFolder(t, {})), { code: 0, err: /there are no policies/ })
})
