import t from 'tap'
import { Tokens } from './tokens.ts'

const A = 'a'.repeat(32)
const B = 'b'.repeat(32)
const NOW = Date.parse('2026-01-01T00:00:00Z')

t.test('a token stands for its actor, in YAML as in JSON, until its time is over', async (t) => {
  const yaml = `
- token: ${A}
  actor: ann
  roles: [operator, on-call, operator]
- token: "${B}"
  actor: bob
  tenant: acme
  scope: ["support.*", disk.clean]
  not_after: 2026-01-01T00:00:00Z
`
  const tokens = Tokens.read(yaml)
  t.equal(tokens.count, 2)
  t.same([...tokens.tenants], ['default', 'acme'])
  t.same(tokens.callerOf(A, NOW), { actor: 'ann', roles: ['operator', 'on-call'], tenant: 'default' })
  t.same(tokens.callerOf(B, NOW), { actor: 'bob', roles: [], tenant: 'acme', scope: ['support.*', 'disk.clean'], notAfter: NOW })
  t.equal(tokens.callerOf(B, NOW + 1), undefined)
  for (const other of ['', 'a', `${A}a`, A.slice(1), 'c'.repeat(32), A.toUpperCase()]) t.equal(tokens.callerOf(other, NOW), undefined)
  t.same(Tokens.read(JSON.stringify([{ token: A, actor: 'ann' }])).callerOf(A, NOW)?.actor, 'ann')
})

t.test('a file that cannot be used is refused, and no token is in the message', async (t) => {
  const secret = 'S3cretS3cretS3cretS3cretS3cret!!'
  const refused = (text: unknown, message: RegExp) => {
    const file = typeof text === 'string' ? text : JSON.stringify(text)
    try {
      Tokens.read(file)
      t.fail(`${file.slice(0, 80)} was read`)
    } catch (error) {
      t.match((error as Error).message, message)
      t.notMatch((error as Error).message, /S3cret/)
    }
  }
  const entry = { token: secret, actor: 'ann' }
  refused('', /no list/)
  refused([], /no entries/)
  refused({ token: secret }, /no list/)
  refused('- [', /line \d+ cannot be read/)
  refused(`- token: ${secret}\n  token: ${secret}\n  actor: x`, /line 2 cannot be read: duplicate key/)
  refused(`- token: *${secret}\n  actor: x`, /./)
  refused([secret], /entry 1: it is no entry/)
  refused([entry, { ...entry, actor: 'bob' }], /entry 2 has the token of entry 1/)
  refused([{ ...entry, role: 'x' }], /unknown member "role"/)
  refused([{ ...entry, [secret]: 'x' }], /unknown member "..."/)
  refused([{ actor: 'ann' }], /token is a text/)
  refused(`- token: 12345678901234567890123456789012\n  actor: x`, /quotation marks/)
  refused([{ ...entry, token: ' '.repeat(40) }], /blank/)
  refused([{ ...entry, token: secret.slice(1) }], /31 bytes, and 32 to 4096/)
  refused([{ ...entry, token: `${secret} x` }], /cannot carry/)
  refused([{ ...entry, token: 'replace-me-with-32-random-bytes-or-more' }], /of the documentation/)
  for (const actor of [undefined, '', '  ', 7, 'x'.repeat(257), 'a\nb']) refused([{ ...entry, actor }], /actor is a name/)
  for (const roles of ['operator', [''], [7], {}]) refused([{ ...entry, roles }], /roles is a list/)
  for (const tenant of ['', 7, 'x'.repeat(65), null]) refused([{ ...entry, tenant }], /tenant is a name of 1 to 64/)
  for (const scope of [[], 'support.*', ['Support'], ['*.x']]) refused([{ ...entry, scope }], /scope is a list/)
  for (const not_after of ['tomorrow', '2026-01-01', 7, '2026-13-01T00:00:00Z']) refused([{ ...entry, not_after }], /not_after is an RFC 3339 time/)
})
