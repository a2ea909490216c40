/**
 * Random chains of proxies, written in many ways, behind anything that a caller may send: the address found is the one that the chain was made with;
 * and damaged headers, of which an address comes, whatever they are.
 * node plugins/rate_limit/forwarded.fuzz.ts [seconds] [seed]
 */
import { isIP } from 'node:net'
import { type Random, seeded } from 'svcdb/lib/random'
import { callerOf, Networks, plainAddress } from './address.ts'
import { ForwardedAddress, type ProxyHeader } from './forwarded.ts'

const TRUSTED = ['10.0.0.0/8', '2001:db8::/32', '192.0.2.7']
const HEADERS: ProxyHeader[] = ['x-forwarded-for', 'forwarded', 'x-real-ip']
const FRAGMENTS = [
  'for=',
  '"',
  ',',
  ';',
  '[',
  ']',
  ':',
  '::',
  '\\',
  '=',
  ' ',
  '1.1.1.1',
  '10.0.0.9',
  '2001:db8::9',
  'unknown',
  '_x',
  '%',
  'by=a',
  '\t',
  'ÿ',
  '255',
  '.',
]
const proxies = new Networks(TRUSTED, 'the fuzzer')

const pick = <T>(random: Random, values: readonly T[]): T => values[Math.floor(random() * values.length)]
const below = (random: Random, end: number) => Math.floor(random() * end)
const hex = (random: Random) => below(random, 65_536).toString(16)

function proxy(random: Random): string {
  if (random() < 0.2) return '192.0.2.7'
  return random() < 0.5 ? `10.${below(random, 256)}.${below(random, 256)}.${below(random, 256)}` : `2001:db8:${hex(random)}::${hex(random)}`
}

function stranger(random: Random): string {
  return random() < 0.5 ? `198.51.${below(random, 256)}.${below(random, 256)}` : `2a00:${hex(random)}:${hex(random)}::${hex(random)}`
}

/** One hop in one of the ways in which proxies write it. */
function written(random: Random, header: ProxyHeader, address: string): string {
  const v6 = address.includes(':')
  const port = random() < 0.3 ? `:${1 + below(random, 65_535)}` : ''
  const node = v6 ? (port !== '' || header === 'forwarded' || random() < 0.3 ? `[${address}]${port}` : address) : address + port
  if (header !== 'forwarded') return node
  const own = /[:[]/.test(node) || random() < 0.3 ? `${pick(random, ['for', 'For', 'FOR'])}="${node}"` : `for=${node}`
  const parts = [own, ...(random() < 0.3 ? ['proto=https'] : []), ...(random() < 0.3 ? ['by="_p;x"'] : []), ...(random() < 0.2 ? ['host="a\\"b"'] : [])]
  return random() < 0.5 ? parts.join(';') : parts.reverse().join(' ; ')
}

const noise = (random: Random) => Array.from({ length: below(random, 12) }, () => pick(random, FRAGMENTS)).join('')

/** Runs while `goesOn(headers)` holds; returns how many headers were read. @throws when one is read wrongly. */
export function fuzz(seed: number, goesOn: (headers: number) => boolean): number {
  const random = seeded(seed)
  let headers = 0
  for (; goesOn(headers); headers++) {
    const header = pick(random, HEADERS)
    const listed = random() < 0.7
    const reader = new ForwardedAddress(header, listed ? proxies : new Networks([], 'the fuzzer'))
    const caller = stranger(random)
    const behind = listed ? Array.from({ length: below(random, 5) }, () => proxy(random)) : []
    const peer = proxy(random)
    const chain = [caller, ...behind].map((address) => written(random, header, address))
    const value = (random() < 0.7 ? `${noise(random)},` : '') + chain.join(pick(random, [',', ', ', ' , ', ',,']))
    const found = reader.of(peer, () => value)
    if (found !== plainAddress(caller)) throw new Error(`seed ${seed}: ${found} is not ${caller} in ${header}: ${JSON.stringify(value)}`)

    const corrupted = value.split('')
    for (let i = 1 + below(random, 4); i > 0; i--) corrupted[below(random, corrupted.length)] = pick(random, FRAGMENTS)
    for (const text of [corrupted.join(''), noise(random)]) {
      const address = reader.of(peer, () => text)
      if (isIP(address) === 0 || callerOf(address) === '') throw new Error(`seed ${seed}: ${JSON.stringify(address)} is no address, of ${JSON.stringify(text)}`)
      const stranded = new ForwardedAddress(header, proxies).of(caller, () => text)
      if (stranded !== plainAddress(caller)) throw new Error(`seed ${seed}: ${caller} is no proxy, and was believed ${JSON.stringify(text)}`)
    }
  }
  return headers
}

if (process.argv[1] === import.meta.filename) {
  const seed = Number(process.argv[3] ?? Date.now() % 1e9)
  const until = Date.now() + Number(process.argv[2] ?? 10) * 1000
  console.log(`seed ${seed}: ${fuzz(seed, () => Date.now() < until)} headers, no difference`)
}
