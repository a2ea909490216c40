/** Which addresses may be sent to, against the registries written down once more; a generator tries their edges and all spellings. */
import { BlockList, isIPv6 } from 'node:net'
import { addressProblem, isInternalName, literalAddress } from 'svcdb/lib/egress'
import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { parseTarget } from './target.ts'

const { SVC_ADDRESS_SEED, SVC_ADDRESS_STEPS = '20000' } = process.env
const seed = Number(SVC_ADDRESS_SEED ?? Date.now() % 1_000_000)

/** IANA, IPv4 Special-Purpose Address Registry, and multicast. */
const V4 =
  '0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 192.175.48.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4'.split(
    ' ',
  )
/** IANA, IPv6 Special-Purpose Address Registry; beside it only 2000::/3 is unicast that is given out. */
const V6 = '64:ff9b:1::/48 100::/64 2001::/23 2001:db8::/32 2002::/16 2620:4f:8000::/48 3fff::/20 5f00::/16 fc00::/7 fe80::/10 fec0::/10 ff00::/8 ::/8'.split(
  ' ',
)

// One for each kind: ::/8 would stand for all of IPv4 as well.
const [special4, special6] = [new BlockList(), new BlockList()]
for (const cidr of V4) special4.addSubnet(cidr.split('/')[0], Number(cidr.split('/')[1]), 'ipv4')
for (const cidr of V6) special6.addSubnet(cidr.split('/')[0], Number(cidr.split('/')[1]), 'ipv6')
const given = new BlockList()
given.addSubnet('2000::', 3, 'ipv6')

const v4Text = (n: number): string => [24, 16, 8, 0].map((shift) => (n >>> shift) & 255).join('.')
const v6Text = (n: bigint): string => Array.from({ length: 8 }, (_, i) => ((n >> BigInt(112 - 16 * i)) & 0xffffn).toString(16)).join(':')
const isGood4 = (text: string): boolean => !special4.check(text, 'ipv4')

function isGood6(text: string, n: bigint): boolean {
  const low = v4Text(Number(n & 0xffffffffn))
  if (n >> 32n === 0xffffn || n >> 32n === 0x0064ff9b0000000000000000n) return isGood4(low)
  return given.check(text, 'ipv6') && !special6.check(text, 'ipv6')
}

t.test(`random addresses and those at the edges of ranges, seed ${seed}`, async (t) => {
  const random = seeded(seed)
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]
  const bits = (count: number): bigint => BigInt(`0b0${Array.from({ length: count }, () => (random() < 0.5 ? '0' : '1')).join('')}`)
  const wrong: string[] = []
  let good = 0
  for (let i = 0; i < Number(SVC_ADDRESS_STEPS); i++) {
    let n4 = Number(bits(32))
    if (random() < 0.6) {
      const [base, length] = pick(V4).split('/')
      const first = base.split('.').reduce((sum, part) => sum * 256 + Number(part), 0)
      n4 = (random() < 0.5 ? first : first + 2 ** (32 - Number(length))) + Math.floor(random() * 5) - 2
      n4 = ((n4 % 2 ** 32) + 2 ** 32) % 2 ** 32
    }
    const v4 = v4Text(n4)
    if ((addressProblem(v4) === undefined) !== isGood4(v4)) wrong.push(v4)
    if (isGood4(v4)) good++
    // A URL may spell it as one number, octal or hexadecimal, or in fewer parts.
    const [a, b, c, d] = v4.split('.').map(Number)
    const low = c * 256 + d
    const spelling = pick([
      v4,
      String(n4),
      `0x${n4.toString(16)}`,
      `0${n4.toString(8)}`,
      `${a}.${b * 65_536 + low}`,
      `${a}.${b}.${low}`,
      `0x${a.toString(16)}.0${b.toString(8)}.${c}.${d}`,
      `${v4}.`,
      `%3${a.toString()[0]}${v4.slice(1)}`,
      `[::ffff:${v4}]`,
      `[64:ff9b::${v4}]`,
      `[0:0:0:0:0:FFFF:${v6Text(BigInt(n4)).split(':').slice(6).join(':')}]`,
    ])
    let taken = true
    try {
      parseTarget(`https://${spelling}/`, false)
    } catch {
      taken = false
    }
    if (taken !== isGood4(v4)) wrong.push(`${spelling} is ${v4}`)

    let n6 = bits(128)
    const kind = random()
    if (kind < 0.6) {
      const [base, length] = pick([...V6, '2000::/3', '64:ff9b::/96', '::ffff:0:0/96']).split('/')
      const parts = expand(base)
      const size = 1n << BigInt(128 - Number(length))
      n6 = (random() < 0.5 ? parts : parts + size) + BigInt(Math.floor(random() * 5) - 2)
      if (random() < 0.3) n6 = parts + (bits(128) % size)
      n6 = BigInt.asUintN(128, n6)
    } else if (kind < 0.75) n6 = (pick([0xffffn, 0x0064ff9b0000000000000000n, 0n, 0xffff0000n, 0x20020000n << 64n]) << 32n) | BigInt(n4)
    const v6 = v6Text(n6)
    if ((addressProblem(v6) === undefined) !== isGood6(v6, n6)) wrong.push(v6)
    if (isGood6(v6, n6)) good++
  }
  t.same(wrong.slice(0, 20), [])
  t.ok(good > Number(SVC_ADDRESS_STEPS) / 10, `${good} good ones`)
})

function expand(text: string): bigint {
  const [head, tail = ''] = text.split('::')
  const [left, right] = [head.split(':').filter(Boolean), tail.split(':').filter(Boolean)]
  return [...left, ...Array(8 - left.length - right.length).fill('0'), ...right].reduce((sum, part) => (sum << 16n) | BigInt(`0x${part}`), 0n)
}

t.test('URLs that are no endpoints', async (t) => {
  for (const [url, why] of [
    ['http://example.com/', /it is not https/],
    ['ftp://example.com/', /it is not https/],
    ['file:///etc/passwd', /it is not https/],
    ['https://user@example.com/', /carries a user/],
    ['https://:pass@example.com/', /carries a user/],
    ['nonsense', /it is no URL/],
    ['https://', /it is no URL/],
    [`https://example.com/${'x'.repeat(2048)}`, /more than 2048/],
    ['https://localhost/', /an internal name/],
    ['https://LOCALHOST./', /an internal name/],
    ['https://a.localhost/', /an internal name/],
    ['https://intranet/', /an internal name/],
    ['https://metadata.google.internal/', /an internal name/],
    ['https://printer.local:8443/', /an internal name/],
    ['https://router.home.arpa/', /an internal name/],
    ['https://169.254.169.254/latest/meta-data', /linkLocal/],
    ['https://[fe80::1]/', /linkLocal/],
    ['https://[::]/', /unspecified/],
    ['https://[fd00:ec2::254]/', /uniqueLocal/],
    ['https://①②⑦.0.0.1/', /loopback/],
    ['https://ⓛocalhost/', /an internal name/],
  ] as const)
    t.throws(() => parseTarget(url, false), { code: 'BAD_REQUEST', message: why }, url)
  try {
    parseTarget('http://ann:hunter22@example.com/token', false)
  } catch (error) {
    t.notMatch((error as Error).message, /hunter22|token/)
  }
  for (const url of ['https://example.com/a?b#c', 'https://8.8.8.8:8443/', 'https://[2606:4700::1111]/', 'https://xn--bcher-kva.example/'])
    t.doesNotThrow(() => parseTarget(url, false), url)
  for (const url of ['http://localhost:1/', 'https://10.0.0.1/', 'http://[::1]/']) t.doesNotThrow(() => parseTarget(url, true), url)
  t.throws(() => parseTarget('http://user@localhost/', true), /carries a user/)
  for (const url of ['ftp://localhost/', 'file:///etc/passwd']) t.throws(() => parseTarget(url, true), { code: 'BAD_REQUEST' }, url)
  t.equal(literalAddress('[::1]'), '::1')
  t.equal(literalAddress('example.com'), undefined)
  t.ok(isIPv6('fe80::1%eth0') && addressProblem('fe80::1%eth0') !== undefined)
  t.equal(addressProblem('2606:4700::1111%eth0'), 'an address of this link')
  t.notOk(isInternalName('example.com'))
})
