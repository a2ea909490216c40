/** What the limits cost each request, in nanoseconds on one core: node plugins/rate_limit/bucket.bench.ts [requests] */
import { callerOf, Networks } from './address.ts'
import { ForwardedAddress } from './forwarded.ts'
import { fullBucket, rateOf, take, waitOf } from './gcra.ts'
import { Limits } from './limits.ts'
import { Lockout } from './lockout.ts'

const REQUESTS = Number(process.argv[2] ?? 2_000_000)
const TRACKED = 100_000
/** Never refused, so that all of it is done. */
const rate = rateOf(1_000_000, 100_000_000)

function run(name: string, ask: (i: number) => unknown): void {
  for (let i = 0; i < REQUESTS / 10; i++) ask(i)
  const start = process.hrtime.bigint()
  for (let i = 0; i < REQUESTS; i++) ask(i)
  const nanos = Number(process.hrtime.bigint() - start) / REQUESTS
  console.log(`${name.padEnd(52)} ${nanos.toFixed(0).padStart(6)} ns/request`)
}

const bucket = fullBucket()
run('one bucket', (i) => {
  if (rate !== undefined && waitOf(bucket, rate, i / 1000) === 0) take(bucket, rate, i / 1000)
})

const addresses = Array.from({ length: 1000 }, (_, i) => `10.0.${i >> 8}.${i & 255}`)
const v6 = addresses.map((_, i) => `2001:db8:${i.toString(16)}::1`)
const mapped = addresses.map((address) => `::ffff:${address}`)
run('address to caller, IPv4', (i) => callerOf(addresses[i % 1000]))
run('address to caller, IPv4 in IPv6', (i) => callerOf(mapped[i % 1000]))
run('address to caller, IPv6', (i) => callerOf(v6[i % 1000]))

const names = Array.from({ length: 100 }, (_, i) => `namespace-${i}`)
const all = (maxTracked: number) => new Limits({ address: rate, global: rate, principal: rate, namespace: () => rate, maxTracked })
const lockout = new Lockout({ maxFailures: 5, lockoutMs: 1e9, maxTracked: TRACKED })
for (let n = 0; n < 5; n++) lockout.failed('192.0.2.1', 0)
const whole = all(TRACKED)
run('ban check and all four layers, 1000 addresses', (i) => {
  const caller = callerOf(addresses[i % 1000])
  return lockout.find(caller, i / 1000) ?? whole.arrival(caller, i / 1000) ?? whole.admitted(names[i % 100], `api_key:${names[i % 100]}`, i / 1000)
})

const flooded = all(TRACKED)
run('address and global layer, a new address each', (i) => flooded.arrival(`10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`, i / 1000))
let longest = 0
let last = process.hrtime.bigint()
const begun = last
for (const _ of flooded.sweep(1e9)) {
  const now = process.hrtime.bigint()
  longest = Math.max(longest, Number(now - last) / 1e6)
  last = now
}
console.log(`a sweep of ${TRACKED} idle entries: ${(Number(last - begun) / 1e6).toFixed(1)} ms, the longest part ${longest.toFixed(2)} ms`)

const proxies = new Networks(['10.0.0.0/8', '192.0.2.0/24', '2001:db8::/32'], 'the bench')
const behind = { 'x-forwarded-for': '1.1.1.1, 198.51.100.7, 10.0.0.2', forwarded: 'for=1.1.1.1, for=198.51.100.7;proto=https, for="10.0.0.2:80"' }
for (const header of ['x-forwarded-for', 'forwarded'] as const) {
  const forwarded = new ForwardedAddress(header, proxies)
  run(`${header}, two proxies`, () => forwarded.of('10.0.0.1', (name) => behind[name as keyof typeof behind]))
}
