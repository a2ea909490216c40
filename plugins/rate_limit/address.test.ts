import { isIP, SocketAddress } from 'node:net'
import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { callerOf, Networks, plainAddress, readCaller } from './address.ts'

t.test('one caller is an IPv4 address or the /64 of an IPv6 address', async (t) => {
  for (const [address, caller] of [
    ['192.0.2.1', '192.0.2.1'],
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['::FFFF:c000:201', '192.0.2.1'],
    ['0:0:0:0:0:ffff:192.0.2.1', '192.0.2.1'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:db8:1:2::', '2001:db8:1:2::/64'],
    ['2001:0DB8:0001:0002:ffff::1', '2001:db8:1:2::/64'],
    ['2001:db8::1', '2001:db8:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['::', '0:0:0:0::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['1::2:3:4:5:6:7', '1:0:2:3::/64'],
    ['64:ff9b::192.0.2.1', '64:ff9b:0:0::/64'],
    ['unknown', 'unknown'],
  ]) {
    t.equal(callerOf(address), caller, address)
    if (address !== 'unknown') t.equal(callerOf(caller.replace('/64', '')), caller, 'and again')
  }
})

t.test('all ways to write an address are one caller', async (t) => {
  const seed = Date.now() % 1e9
  t.comment(`seed ${seed}`)
  const random = seeded(seed)
  for (let i = 0; i < 5000; i++) {
    const groups = Array.from({ length: 8 }, () => (random() < 0.4 ? 0 : Math.floor(random() * 65_536)))
    const long = groups.map((group) => (random() < 0.5 ? group.toString(16).padStart(4, '0') : group.toString(16).toUpperCase())).join(':')
    const short = new SocketAddress({ address: long, family: 'ipv6' }).address
    if (callerOf(long) !== callerOf(short) || isIP(plainAddress(long)) === 0) t.fail(`${long} and ${short}, seed ${seed}`)
    const other = groups.slice(0, 4).join(':') === '0:0:0:0' ? long : `${long.split(':').slice(0, 4).join(':')}:1:2:3:4`
    if (callerOf(other) !== callerOf(long)) t.fail(`${other} is in the /64 of ${long}, seed ${seed}`)
  }
})

t.test('what is no address is no caller that an operator can name', async (t) => {
  t.equal(readCaller('192.0.2.1'), '192.0.2.1')
  t.equal(readCaller('2001:db8::7'), '2001:db8:0:0::/64')
  t.equal(readCaller('2001:db8:0:0::/64'), '2001:db8:0:0::/64')
  for (const text of ['', 'x', '192.0.2.1/64', '192.0.2', '2001:db8::/32', '1:2:3', '::/64/64']) t.equal(readCaller(text), undefined, text)
})

t.test('networks', async (t) => {
  const networks = new Networks(['10.0.0.0/8', '192.0.2.1', '2001:db8::/33', '::1', '203.0.113.9/32'], 'key')
  for (const address of ['10.255.0.1', '192.0.2.1', '2001:db8:7fff::1', '::1', '203.0.113.9']) t.ok(networks.has(address), address)
  for (const address of ['11.0.0.1', '192.0.2.2', '2001:db8:8000::1', '::2', '203.0.113.8', 'unknown']) t.notOk(networks.has(address), address)
  t.notOk(new Networks([], 'key').has('10.0.0.1'))
  for (const text of ['10.0.0.0/33', '2001:db8::/129', 'example.com', '10.0.0', '10.0.0.0/', '/8', '10.0.0.0/8/8', 'fe80::1%eth0', ' 10.0.0.1'])
    t.throws(() => new Networks([text], 'rate_limit.x'), /cannot use rate_limit.x ".*": it is neither an address nor a network/, text)
})
