import t from 'tap'
import { Networks } from './address.ts'
import { fuzz } from './forwarded.fuzz.ts'
import { ForwardedAddress, type ProxyHeader, readForwarded, readNode } from './forwarded.ts'

const PEER = '10.0.0.1'
const of = (header: ProxyHeader, value: string | undefined, trusted: string[] = [], peer = PEER) =>
  new ForwardedAddress(header, new Networks(trusted, 'key')).of(peer, (name) => (name === header ? value : `9.9.9.9`))

t.test('the right-most address that is no trusted proxy', async (t) => {
  const xff = (value: string | undefined, trusted: string[] = [], peer?: string) => of('x-forwarded-for', value, trusted, peer)
  t.equal(xff('192.0.2.1'), '192.0.2.1')
  t.equal(xff('1.1.1.1, 192.0.2.1'), '192.0.2.1', 'with no list there is one proxy, and what came before it was sent by the caller')
  t.equal(xff('1.1.1.1, 192.0.2.1, 10.0.0.2', ['10.0.0.0/8']), '192.0.2.1')
  t.equal(xff('10.0.0.9, 1.1.1.1, 192.0.2.1, 10.0.0.2', ['10.0.0.0/8']), '192.0.2.1', 'an address of the proxies, claimed by the caller')
  t.equal(xff('10.0.0.3, 10.0.0.2', ['10.0.0.0/8']), '10.0.0.3', 'a caller among the proxies')
  t.equal(xff('192.0.2.1', ['10.0.0.2'], PEER), PEER, 'a peer that is no proxy')
  t.equal(xff('192.0.2.1', ['10.0.0.0/8'], '::ffff:10.0.0.1'), '192.0.2.1', 'IPv4 in IPv6')
  t.equal(xff('192.0.2.1', ['fe80::/10'], 'fe80::1%eth0'), '192.0.2.1')
  t.equal(xff(undefined), PEER)
  t.equal(xff(''), PEER)
  t.equal(xff(' , ,'), PEER)
  t.equal(xff('192.0.2.1,'), '192.0.2.1')
})

t.test('what a proxy does not know stays the address of the proxy', async (t) => {
  for (const text of ['unknown', '_hidden', 'localhost', '192.0.2', '192.0.2.1.2', '192.0.2.1:x', '[::1', '::1]', '1'.repeat(2000), '<script>', '192.0.2.1%0'])
    t.equal(of('x-forwarded-for', `1.1.1.1, ${text}`), PEER, text.slice(0, 20))
  t.equal(of('x-forwarded-for', '1.1.1.1, unknown, 10.0.0.2', ['10.0.0.0/8']), '10.0.0.2')
  t.equal(of('x-forwarded-for', `${'1.1.1.1, '.repeat(100_000)}192.0.2.1`), '192.0.2.1', 'however much the caller sends')
  t.equal(of('x-forwarded-for', `1.1.1.1, ${Array(40).fill('10.0.0.2').join(', ')}`, ['10.0.0.0/8']), '10.0.0.2', 'more hops than are looked at')
})

t.test('ports and brackets', async (t) => {
  for (const [text, address] of [
    ['192.0.2.1:80', '192.0.2.1'],
    ['[2001:DB8::1]:4711', '2001:db8::1'],
    ['[2001:db8::1]', '2001:db8::1'],
    ['2001:db8::1', '2001:db8::1'],
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['[::ffff:c000:201]', '192.0.2.1'],
  ])
    t.equal(readNode(text), address, text)
  for (const text of ['fe80::1%eth0', '[fe80::1%eth0]', '192.0.2.1:', '192.0.2.1:123456', '[192.0.2.1]', '[2001:db8::1]x', '[2001:db8::1]:', '', ':80'])
    t.equal(readNode(text), undefined, text)
})

t.test('Forwarded', async (t) => {
  for (const [element, address] of [
    ['for=192.0.2.43', '192.0.2.43'],
    ['For="[2001:db8:cafe::17]:4711"', '2001:db8:cafe::17'],
    ['for=192.0.2.60;proto=http;by=203.0.113.43', '192.0.2.60'],
    ['proto=https ; for="192.0.2.60:47" ; host="a;b"', '192.0.2.60'],
    ['for="192\\.0.2.1"', '192.0.2.1'],
    ['for=192.0.2.1:80', '192.0.2.1'],
    ['for=[2001:db8::1]', '2001:db8::1'],
  ])
    t.equal(readForwarded(element), address, element)
  for (const element of [
    'for=unknown',
    'for=_gazonk',
    'for="_gazonk"',
    'by=192.0.2.1',
    'for=192.0.2.1;for=192.0.2.2',
    'for="192.0.2.1',
    'for=192.0.2.1"',
    'for=192.0.2.1;x="',
    'for 192.0.2.1',
    '192.0.2.1',
    'for=192.0.2.1 x',
    'for=',
    'for=""',
    ';',
  ])
    t.equal(readForwarded(element), undefined, element)
  const forwarded = (value: string, trusted: string[] = []) => of('forwarded', value, trusted)
  t.equal(forwarded('for=1.1.1.1, for=192.0.2.1'), '192.0.2.1')
  t.equal(forwarded('for="1.1.1.1, for=192.0.2.1'), '192.0.2.1', 'a quote that the caller left open swallows nothing')
  t.equal(forwarded('for=192.0.2.1;host="a,for=6.6.6.6;x="'), PEER, 'what the caller put in the host is no element')
  t.equal(forwarded('for=1.1.1.1, for=192.0.2.1, for=10.0.0.2;by=10.0.0.3', ['10.0.0.0/8']), '192.0.2.1')
})

t.test('only the header that the proxy sets is looked at', async (t) => {
  t.equal(of('forwarded', undefined), PEER)
  t.equal(of('x-real-ip', undefined), PEER)
  t.equal(of('x-real-ip', '192.0.2.1'), '192.0.2.1')
})

t.test('any header', async (t) => {
  const seed = Date.now() % 1e9
  t.comment(`seed ${seed}`)
  t.ok(fuzz(seed, (headers) => headers < 2000) >= 2000)
})
