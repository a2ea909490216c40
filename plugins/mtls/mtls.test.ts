/** Who is who by certificate, over real TLS on all listeners. */
import { X509Certificate } from 'node:crypto'
import { definePlugin } from 'svcdb'
import { boot, systemClock, temporaryFolder } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import mtls from './index.ts'
import { Authority, get, type Issued, issue, keepingAgent, noOpenssl, type Outcome, startMtls } from './testing.ts'

const setUp = (t: Test): { folder: string; authority: Authority } => {
  const folder = temporaryFolder(t)
  return { folder, authority: new Authority(folder, 'authority') }
}
const clients = [
  { name: 'ann', namespaces: ['red'], roles: ['writer'] },
  { name: 'root', admin: true, namespaces: ['*'] },
]
const principals = (outcomes: Outcome[]) => outcomes.map(({ protocol, identity, error }) => `${protocol} ${identity?.principal ?? error}`)
const all = (text: string) => [`http ${text}`, `grpc ${text}`, `flight ${text}`]

t.test('over TLS', { skip: noOpenssl }, async (t) => {
  t.test('a listed client is known on every listener, with what the list gives it', async (t) => {
    const { authority } = setUp(t)
    const { everywhere, node } = await startMtls(t, { authority, section: { clients } })
    const ann = authority.issue({ subject: ['CN=ann'] })
    const outcomes = await everywhere(ann)
    t.same(principals(outcomes), all('ann'))
    const { fingerprint256, validTo } = new X509Certificate(ann.cert)
    for (const { identity, error } of outcomes) {
      t.equal(error, '')
      t.match(identity, { method: 'mtls', namespaces: ['red'], roles: ['writer'], admin: false, expiresAt: Date.parse(validTo), namespace: 'red' })
      t.match(identity?.claims, { names: ['ann'], fingerprint_sha256: fingerprint256.replaceAll(':', '').toLowerCase() })
    }
    for (const { error } of await everywhere(ann, { 'x-namespace': 'blue' })) t.match(error, /^FORBIDDEN: cannot use namespace "blue" as "ann"/)
    t.match(await everywhere(authority.issue({ subject: ['CN=root'] })), [
      { identity: { admin: true } },
      { identity: { admin: true } },
      { identity: { admin: true } },
    ])
    const stranger = authority.issue({ subject: ['CN=Ann'] })
    for (const { error } of await everywhere(stranger)) t.match(error, /^FORBIDDEN: cannot tell who shows the client certificate of "Ann": /)
    const metrics = await node.node.metrics.text()
    t.match(metrics, /svc_mtls_calls_total\{result="accepted"\} 9/)
    t.match(metrics, /svc_mtls_calls_total\{result="unknown"\} 3/)
  })

  t.test('with client_auth "required" nobody gets in without a certificate of the authority', async (t) => {
    const { folder, authority } = setUp(t)
    const { everywhere, decisions } = await startMtls(t, { authority, section: { clients } })
    const other = new Authority(folder, 'authority')
    for (const [shown, why] of [
      [undefined, 'none'],
      [other.issue({ subject: ['CN=ann'] }), 'of another authority, of the same name'],
      [issue(folder, { subject: ['CN=ann'] }), 'signed by itself'],
      [authority.issue({ subject: ['CN=ann'], days: -1 }), 'expired'],
      [authority.issue({ subject: ['CN=ann'], usage: 'serverAuth' }), 'for servers'],
    ] as [Issued | undefined, string][]) {
      for (const { protocol, error } of await everywhere(shown)) t.match(error, /^no answer: /, `${why}, ${protocol}`)
    }
    t.same(decisions, [], 'none of it came as far as a call')
  })

  t.test('with client_auth "optional" one that is shown must hold, whatever else is given', async (t) => {
    const { folder, authority } = setUp(t)
    const keys = definePlugin({
      id: 'keys',
      summary: 'Knows a key',
      stability: 'stable',
      setup: (svc) =>
        svc.auth.authenticator(({ header }) =>
          header('authorization') === 'Bearer good' ? { principal: 'key', method: 'api_key', claims: {}, namespaces: [], admin: false } : undefined,
        ),
    })
    const { everywhere } = await startMtls(t, { authority, section: { clients }, tls: { client_auth: 'optional' }, others: [keys] })
    const good = { authorization: 'Bearer good' }
    t.same(principals(await everywhere(undefined, good)), all('key'), 'others are asked where no certificate is shown')
    for (const { error } of await everywhere()) t.match(error, /^UNAUTHORIZED: no credentials were given/)
    t.same(principals(await everywhere(authority.issue({ subject: ['CN=ann'] }), good)), all('ann'), 'a certificate comes before a key')
    for (const { error } of await everywhere(authority.issue({ subject: ['CN=eve'] }), good)) t.match(error, /^FORBIDDEN: cannot tell who/)
    for (const [shown, why] of [
      [new Authority(folder, 'authority').issue({ subject: ['CN=ann'] }), /UNABLE_TO_VERIFY_LEAF_SIGNATURE|CERT_SIGNATURE_FAILURE|UNABLE_TO_GET_ISSUER/],
      [issue(folder, { subject: ['CN=ann'] }), /DEPTH_ZERO_SELF_SIGNED_CERT/],
      [authority.issue({ subject: ['CN=ann'], days: -1 }), /CERT_HAS_EXPIRED/],
      [authority.issue({ subject: ['CN=ann'], usage: 'serverAuth' }), /INVALID_PURPOSE/],
    ] as [Issued, RegExp][]) {
      for (const { protocol, error } of await everywhere(shown, good)) {
        t.match(error, /^UNAUTHORIZED: InvalidCertificate: the client certificate is not accepted: /, protocol)
        t.match(error, why)
      }
    }
  })

  t.test('a certificate without extended key usage is for any purpose; with an intermediate the chain is followed', async (t) => {
    const { folder, authority } = setUp(t)
    const { everywhere } = await startMtls(t, { authority, section: { clients } })
    t.same(principals(await everywhere(authority.issue({ subject: ['CN=ann'], usage: '' }))), all('ann'))
    const between = new Authority(folder, 'between', authority)
    const ann = between.issue({ subject: ['CN=ann'] })
    t.same(principals(await everywhere({ key: ann.key, cert: Buffer.concat([ann.cert, between.own.cert]) })), all('ann'))
    for (const { error } of await everywhere(ann)) t.match(error, /^no answer/, 'without the intermediate')
    const leaf = authority.issue({ subject: ['CN=leaf'] })
    const forged = issue(folder, { subject: ['CN=ann'] }, leaf)
    for (const { error } of await everywhere({ key: forged.key, cert: Buffer.concat([forged.cert, leaf.cert]) }))
      t.match(error, /^no answer/, 'of one that may not sign')
  })

  t.test('it ends when its time does, on a connection that is open since before', async (t) => {
    const { authority } = setUp(t)
    let ahead = 0
    const clock = { ...systemClock, now: () => Date.now() + ahead, nowNanos: () => BigInt(Date.now() + ahead) * 1_000_000n, monotonic: () => performance.now() }
    const { node } = await startMtls(t, { authority, section: { clients }, clock })
    const { cert, key } = authority.issue({ subject: ['CN=ann'], days: 2 })
    const agent = keepingAgent({ ca: authority.own.cert, cert, key })
    t.teardown(() => agent.destroy())
    const ports = new Set<number | undefined>()
    node.app.server.on('secureConnection', (socket: { remotePort?: number }) => ports.add(socket.remotePort))
    const ask = () => get(`${node.url}/who`, { agent })
    t.match(await ask(), { status: 200, body: { principal: 'ann' } })
    ahead = 3 * 86_400_000
    t.match(await ask(), { status: 401, body: { code: 'UNAUTHORIZED', error: /^InvalidCertificate: .*it has expired at 20/ } })
    ahead = -86_400_000
    t.match(await ask(), { status: 401, body: { error: /it is valid from 20.* on$/ } })
    ahead = 0
    t.match(await ask(), { status: 200 })
    t.equal(ports.size, 1, 'all on one connection')
  })

  t.test('other kinds of names', async (t) => {
    const { authority } = setUp(t)
    const shown = authority.issue({
      subject: ['CN=root'],
      san: ['DNS.1=Build.Example', 'DNS.2=other.example', 'URI.1=spiffe://example/ann', 'email.1=ann@example.com'],
    })
    const cases: [Record<string, unknown>, string | RegExp][] = [
      [{ identity: 'san_dns', clients: [{ name: 'build.example' }] }, 'build.example'],
      [{ identity: 'san_dns', clients: [{ name: 'BUILD.EXAMPLE' }] }, 'BUILD.EXAMPLE'],
      [{ identity: 'san_uri', clients: [{ name: 'spiffe://example/ann' }] }, 'spiffe://example/ann'],
      [{ identity: 'san_email', clients: [{ name: 'ann@example.com' }] }, 'ann@example.com'],
      [{ identity: 'san_dns', clients: [{ name: 'root' }] }, /nobody is known by it/],
      [{ identity: 'san_uri', clients: [{ name: 'spiffe://EXAMPLE/ann' }] }, /nobody is known by it/],
      [
        { identity: 'san_dns', clients: [{ name: 'build.example' }, { name: 'other.example' }] },
        /names are those of several clients, build.example, other.example/,
      ],
      [{ identity: 'cn', clients: [{ name: 'build.example' }, { name: 'ann@example.com' }] }, /nobody is known by it/],
      [{ identity: 'san_uri', unknown: 'allow' }, 'spiffe://example/ann'],
      [{ identity: 'san_dns', unknown: 'allow' }, 'build.example'],
      [{ unknown: 'allow' }, 'root'],
    ]
    for (const [section, expected] of cases) {
      const { everywhere } = await startMtls(t, { authority, section })
      for (const { identity, error } of await everywhere(shown)) {
        if (typeof expected === 'string') t.match(identity, { principal: expected, admin: false, roles: [] }, JSON.stringify(section))
        else t.match(error, expected, JSON.stringify(section))
      }
    }
  })

  t.test('without a common name the DNS names count, and without those it is refused', async (t) => {
    const { authority } = setUp(t)
    const { everywhere } = await startMtls(t, { authority, section: { clients } })
    t.same(principals(await everywhere(authority.issue({ san: ['DNS.1=ANN'] }))), all('ann'))
    t.match((await everywhere(authority.issue({ subject: ['CN=eve'], san: ['DNS.1=ann'] })))[0].error, /of "eve"/)
    t.match(
      (await everywhere(authority.issue({ san: ['email.1=ann@x'] })))[0].error,
      /^UNAUTHORIZED: InvalidCertificate: .*neither a common name nor a DNS name/,
    )
    t.match((await everywhere(authority.issue({ subject: ['0.CN=eve', '1.CN=ann'] })))[0].error, /InvalidCertificate: .*several common names/)
    t.match((await everywhere(authority.issue({ subject: ['0.OU=x', '1.+CN=eve', '2.CN=ann'] })))[0].error, /several common names/)
    t.match((await everywhere(authority.issue({ subject: ['O=x, CN = ann', 'CN=eve'] })))[0].error, /of "eve"/)
  })

  t.test('a client may be bound to certificates', async (t) => {
    const { authority } = setUp(t)
    const [first, second, third] = [0, 1, 2].map(() => authority.issue({ subject: ['CN=ann'] }))
    const print = ({ cert }: Issued) => new X509Certificate(cert).fingerprint256
    const fingerprints_sha256 = [print(first), print(second).replaceAll(':', '').toLowerCase()]
    const bob = [0, 1].map(() => authority.issue({ subject: ['CN=bob'] }))
    const bound = [
      { name: 'ann', fingerprints_sha256 },
      { name: 'bob', fingerprints_sha256: [print(bob[0])] },
    ]
    const { everywhere } = await startMtls(t, { authority, section: { unknown: 'allow', clients: bound } })
    t.same(principals(await everywhere(first)), all('ann'))
    t.same(principals(await everywhere(second)), all('ann'))
    t.same(principals(await everywhere(bob[0])), all('bob'))
    for (const { error } of await everywhere(bob[1])) t.match(error, /not one of those that "bob" is known by/, 'to a single one, too')
    for (const { error } of await everywhere(third)) t.match(error, /^UNAUTHORIZED: InvalidCertificate: .*not one of those that "ann" is known by/)
  })

  t.test('a web page of another site cannot write with the certificate that a browser shows for it', async (t) => {
    const { authority } = setUp(t)
    const { everywhere, node } = await startMtls(t, {
      authority,
      section: { clients },
      server: { cors_allowed_origins: ['https://grafana.example'], public_url: 'https://metrics.example' },
    })
    const ann = authority.issue({ subject: ['CN=ann'] })
    // What a form or a script may send without being asked.
    const write = (headers: Record<string, string>) =>
      get(`${node.url}/write`, { ca: authority.own.cert, ...ann, agent: false, method: 'POST', headers: { 'content-type': 'text/plain', ...headers } }, 'm v=1')
    for (const origin of ['https://evil.example', 'null', node.url.replace('https:', 'http:').replace(/\d+$/, '1')])
      t.match(
        await write({ origin }),
        { status: 403, body: { code: 'FORBIDDEN', error: /origin .*client certificate .*server\.cors_allowed_origins/ } },
        origin,
      )
    for (const headers of [{}, { origin: node.url }, { origin: 'https://grafana.example' }, { origin: 'https://metrics.example' }] as Record<string, string>[])
      t.equal((await write(headers)).status, 204, JSON.stringify(headers))
    t.equal((await everywhere(ann))[0].error, '')
  })

  t.test('under multi_tenancy each client is kept to its namespaces', async (t) => {
    const { authority } = setUp(t)
    const { everywhere } = await startMtls(t, { authority, section: { clients }, server: { multi_tenancy: true } })
    for (const { identity } of await everywhere(authority.issue({ subject: ['CN=ann'] }))) t.match(identity, { namespace: 'red', dataNamespace: 'red' })
    for (const { error } of await everywhere(authority.issue({ subject: ['CN=ann'] }), { 'x-namespace': 'blue' })) t.match(error, /^FORBIDDEN/)
  })
})

t.test('what cannot work is refused at the start', async (t) => {
  const fixture = (name: string) => new URL(`../../test/support/certificates/${name}`, import.meta.url).pathname
  const tls = { cert: fixture('first.pem'), key: fixture('first.key'), client_ca: fixture('ca.pem') }
  const refusal = async (section: Record<string, unknown>, more: Record<string, unknown> = { tls }): Promise<string> => {
    try {
      const node = await boot({ plugins: [mtls], config: { auth: { mtls: section }, ...more } })
      await node.stop()
      return ''
    } catch (error) {
      return (error as Error).message
    }
  }
  t.match(await refusal({}, {}), /cannot set up plugin "mtls": it needs an authority .*set tls.client_ca/)
  t.match(await refusal({}, { tls: { cert: tls.cert, key: tls.key } }), /set tls.client_ca/)
  t.equal(await refusal({}), '')
  const tenants = { tls, server: { multi_tenancy: true } }
  const several = [
    { name: 'ann' },
    { name: 'root', admin: true, namespaces: ['*'] },
    { name: 'bob', namespaces: ['red'] },
    { name: 'eve' },
    { name: 'boss', admin: true },
    { name: 'all', namespaces: ['*'] },
  ]
  t.match(
    await refusal({ clients: several }, tenants),
    /"auth.mtls.clients" "ann", "eve", "boss", "all" with server.multi_tenancy: no namespaces are given; .*namespaces = \["\*"\]/,
  )
  t.equal(await refusal({ clients: several }), '')
  for (const listed of [[], [{ name: 'bob', namespaces: ['red'] }]])
    t.match(await refusal({ unknown: 'allow', clients: listed }, tenants), /"auth.mtls.unknown" "allow" with server.multi_tenancy/)
  t.match(await refusal({ clients: [{ name: 'a' }, { name: 'a' }] }), /"a": the name is there twice/)
  t.equal(await refusal({ clients: [{ name: 'a' }, { name: 'A' }] }), '')
  t.match(await refusal({ identity: 'san_dns', clients: [{ name: 'a' }, { name: 'A' }] }), /"A": the name is there twice/)
  t.match(
    await refusal({ clients: [{ name: '*.example' }, { name: 'b', namespaces: ['B'] }] }),
    /"\*\.example": a name stands for itself.*; cannot use .*"b": cannot use namespace "B"/,
  )
  for (const print of ['', 'ab', 'g'.repeat(64), 'a'.repeat(63)])
    t.match(await refusal({ clients: [{ name: 'a', fingerprints_sha256: [print] }] }), /fingerprint/, print)
  t.match(await refusal({ identity: 'dn' }), /"auth.mtls.identity" "dn" .*must be one of cn, san_dns, san_uri, san_email/)
  t.match(await refusal({ clients: [{ nam: 'a' }] }), /"auth.mtls.clients\[0\].nam".*did you mean "name"/)
})
