/** What a certificate says, and ways to have it say more than it does. */

import { X509Certificate } from 'node:crypto'
import { temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import { fuzz } from './certificate.fuzz.ts'
import { alternativeNames, readCertificate, validityProblem } from './certificate.ts'
import type { IdentityKind } from './config.ts'
import { issue, noOpenssl, type Request } from './testing.ts'

t.test('alternative names as node prints them', async (t) => {
  const names = (text: string | undefined) => alternativeNames(text).map(({ kind, name }) => `${kind}|${name}`)
  t.same(names(undefined), [])
  t.same(names(''), [])
  t.same(names('DNS:a.example, DNS:b.example, IP Address:0:0:0:0:0:0:0:1, email:a@b.example, Registered ID:1.2.3'), [
    'DNS|a.example',
    'DNS|b.example',
    'IP Address|0:0:0:0:0:0:0:1',
    'email|a@b.example',
    'Registered ID|1.2.3',
  ])
  t.same(names('URI:"spiffe://x/a\\u002c DNS:admin", DNS:b'), ['URI|spiffe://x/a, DNS:admin', 'DNS|b'])
  t.same(names('DNS:"a\\" , DNS:\\"b", DNS:c'), ['DNS|a" , DNS:"b', 'DNS|c'])
  t.same(names('DNS:"a\\\\", DNS:b'), ['DNS|a\\', 'DNS|b'])
  t.same(names('othername:UPN:"me, DNS:x", othername:<unsupported>, DirName:"CN=a, O=b"'), [
    'othername:UPN|me, DNS:x',
    'othername|<unsupported>',
    'DirName|CN=a, O=b',
  ])
  t.same(names('URI:http://h:1/DNS:x'), ['URI|http://h:1/DNS:x'])
  for (const text of [
    'DNS',
    'DNS:a,DNS:b',
    'DNS:a, ',
    ', DNS:a',
    'DNS:"a',
    'DNS:"a"b',
    'DNS:a"b"',
    'DNS:"\\x"',
    'DNS:a, b',
    'DNS:"a" , DNS:b',
    ':a',
    'D\u00e4:x',
  ])
    t.throws(() => alternativeNames(text), /cannot be read/, text)
})

t.test('from certificates', { skip: noOpenssl }, async (t) => {
  const folder = temporaryFolder(t)
  const made = (wanted: Request): Buffer => new X509Certificate(issue(folder, wanted).cert).raw
  const read = (wanted: Request, identity: IdentityKind = 'cn') => readCertificate(made(wanted), identity)
  /** With one text for another of the same length: the signature is then wrong, which is not what is tested here. */
  const patched = (wanted: Request, from: string, to: string, identity: IdentityKind = 'cn') => {
    const der = Buffer.from(made(wanted))
    let at = der.indexOf(from)
    // A certificate that signed itself has its subject twice.
    for (; at >= 0; at = der.indexOf(from, at + 1)) der.write(to, at, 'latin1')
    return readCertificate(der, identity)
  }

  t.test('the common name as it is, whatever is in it', async (t) => {
    for (const [line, name] of [
      ['CN=ann', 'ann'],
      ['CN=a\\,b+c=d', 'a,b+c=d'],
      ['CN=\u00fc \u4e2d', '\u00fc \u4e2d'],
      ['CN=ann/CN=root', 'ann/CN=root'],
      ['CN=DNS:root', 'DNS:root'],
      ['CN=\\#x', '#x'],
    ])
      t.same(read({ subject: [line] }).names, [name], line)
    t.same(read({ subject: ['O=a\\, CN=root', 'OU=b+CN=root', 'CN=ann'] }).names, ['ann'])
    t.match(read({ subject: ['CN=ann'], san: ['DNS.1=root'] }), { names: ['ann'], kind: 'cn' })
    t.same(patched({ subject: ['O=xxxCN=root', 'CN=ann'] }, 'xxxCN', 'x\nxCN').names, ['ann'], 'a line that ends within an attribute')
  })

  t.test('names that could be taken for others are refused', async (t) => {
    const refused = /has characters that no name may have/
    t.throws(() => patched({ subject: ['CN=root.example'] }, 'root.', 'root\0'), refused)
    t.throws(() => patched({ subject: ['CN=root.example'] }, 'root.', 'root\n'), refused)
    t.throws(() => patched({ subject: ['CN=root.example'] }, 'root.', 'root\x7f'), refused)
    t.throws(() => read({ subject: ['CN=ro\u202eot'] }), refused, 'turned around')
    t.throws(() => read({ subject: ['CN=ro\u200bot'] }), refused, 'not seen')
    t.throws(() => patched({ subject: ['CN=.root'] }, '.root', ' root'), refused)
    t.throws(() => patched({ san: ['DNS.1=root.example'] }, 'root.', 'root\0', 'san_dns'), refused)
    t.throws(() => patched({ san: ['DNS.1=root.example'] }, 'root.', 'roo\xf6.', 'san_dns'), refused)
    t.throws(() => patched({ san: ['DNS.1=root.example'] }, 'root.', 'root ', 'san_dns'), refused)
    t.throws(() => read({ subject: ['0.CN=ann', '1.CN=ann'] }), /several common names/)
    t.throws(() => read({ subject: ['0.CN=ann', '1.+CN=bob'] }), /several common names/)
    t.same(read({ subject: ['0.O=x + CN=root', '1.+CN=bob', '2.+OU=CN=root'] }).names, ['bob'], 'of several attributes together')
  })

  t.test('values in alternative names are no further names', async (t) => {
    t.same(read({ san: ['URI.1=spiffe://x/a, DNS:root', 'DNS.1=ann'] }, 'san_dns').names, ['ann'])
    t.throws(() => read({ san: ['URI.1=spiffe://x/a, DNS:root'] }, 'san_dns'), /has no DNS name/)
    t.throws(() => read({ san: ['URI.1=spiffe://x/a", DNS:"root'] }, 'san_dns'), /has no DNS name/)
    t.throws(() => read({ san: ["email.1=a'@x, URI:spiffe://root"] }, 'san_uri'), /has no URI/)
    t.throws(() => read({ san: ['otherName.1=1.3.6.1.4.1.311.20.2.3;UTF8:me, DNS:root'] }, 'san_dns'), /has no DNS name/)
    t.throws(() => read({ san: ['otherName.1=1.2.3.4;UTF8:me, DNS:root'] }, 'san_dns'), /has no DNS name/)
    t.throws(() => patched({ san: ['DNS.1=ann.xDNS.root'] }, 'n.xDNS.', 'n, DNS:', 'san_dns'), /characters that no name/)
    t.same(read({ san: ['DNS.1=a', 'IP.1=10.0.0.1', 'DNS.2=b', 'DNS.3=a'] }, 'san_dns').names, ['a', 'b'])
  })

  t.test('what it is for, and when', async (t) => {
    t.same(read({ subject: ['CN=ann'], usage: '' }).names, ['ann'])
    t.same(read({ subject: ['CN=ann'], usage: 'serverAuth,clientAuth' }).names, ['ann'])
    t.throws(() => read({ subject: ['CN=ann'], usage: 'serverAuth' }), /does not have clientAuth/)
    t.throws(() => read({ subject: ['CN=ann'], usage: 'anyExtendedKeyUsage' }), /does not have clientAuth/)
    const certificate = read({ subject: ['CN=ann'], days: 1 })
    const { validFrom, validTo } = certificate
    t.equal(validTo - validFrom, 86_400_000)
    t.equal(validityProblem(certificate, validFrom), undefined)
    t.equal(validityProblem(certificate, validTo), undefined)
    t.match(validityProblem(certificate, validFrom - 1), /valid from .* on/)
    t.match(validityProblem(certificate, validTo + 1), /has expired at/)
  })

  t.test('what is no certificate throws', async (t) => {
    const der = made({ subject: ['CN=ann'] })
    for (const bytes of [Buffer.alloc(0), Buffer.from('nonsense'), der.subarray(0, der.length >> 1)]) t.throws(() => readCertificate(bytes, 'cn'))
  })
})

t.test('random certificates are read as they were made', async (t) => {
  const seed = Date.now() % 2 ** 31
  t.comment(`seed ${seed}`)
  const { read, refused } = fuzz(seed, (names) => names < 2000)
  t.ok(read > 5 && refused > 5, `${read} read, ${refused} refused`)
})
