/**
 * Random Authorization headers against random keys that come, go and expire: a call is let in exactly if its header carries a key that stands.
 * The hash is a stand-in, so that many are tried; all else is the plugin's. node plugins/api_keys/tokens.fuzz.ts [seconds] [seed]
 */
import { type Identity, tokenOf } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { type Random, seeded } from 'svcdb/lib/random'
import { type ApiKey, hasExpired, makeKey } from './key.ts'
import { lookupOf } from './key-text.ts'
import { Keyring } from './keyring.ts'
import { dummyPhc } from './phc.ts'
import { bareGate, credentialsOf } from './testing.ts'
import { VerifiedCache } from './verified-cache.ts'

const pick = <T>(random: Random, list: readonly T[]): T => list[Math.floor(random() * list.length)]
const CHARS = 'ABCXYZabcxyz0189-_'
const BYTES = [...CHARS, '.', ' ', '\t', ':', '=', 'ü', '漢', '\u0000', '\u007f', '$', '{', '"', ',']
const SCHEMES = ['Bearer ', 'bearer ', 'TOKEN ', 'Token  ', 'Basic ', 'Digest ', '', ' Bearer ', 'Bearer', 'Bearer\t', 'Bearer Bearer ']
const text = (random: Random, from: readonly string[] | string, length: number): string => Array.from({ length }, () => pick(random, [...from])).join('')

/** Few different first characters, so that keys share them. */
function keyText(random: Random): string {
  const shape = random()
  if (shape < 0.7) return `svc_${pick(random, ['AAAAAAAA', 'BBBBBBBB'])}${text(random, CHARS, 35)}`
  return shape < 0.8 ? text(random, CHARS, 1 + Math.floor(random() * 60)) : shape < 0.9 ? `a.${text(random, CHARS, 3)}.c` : `svc_a.b.${text(random, CHARS, 8)}`
}

function mutated(random: Random, token: string): string {
  const at = Math.floor(random() * (token.length + 1))
  const shape = random()
  if (shape < 0.3) return token.slice(0, at) + pick(random, BYTES) + token.slice(at + 1)
  if (shape < 0.5) return token.slice(0, at)
  if (shape < 0.7) return token.slice(0, at) + pick(random, BYTES) + token.slice(at)
  return shape < 0.8 ? token + token : shape < 0.9 ? token.toLowerCase() : text(random, BYTES, Math.floor(random() * 1100))
}

function headerOf(random: Random, token: string): string {
  const scheme = pick(random, SCHEMES)
  if (scheme !== 'Basic ') return scheme + token + pick(random, ['', '', '', ' ', 'x', '\n'])
  return scheme + Buffer.from(pick(random, ['', 'user:', ':', 'a:b:']) + token).toString('base64')
}

interface Held {
  text: string
  key: ApiKey
}

/** Runs while `goesOn(tried)` holds; returns how many headers were tried. @throws Error with the seed when one fares otherwise than it should. */
export async function fuzz(seed: number, goesOn: (tried: number) => boolean): Promise<number> {
  const random = seeded(seed)
  let now = 1_000_000
  const monotonic = () => now
  const keyring = new Keyring()
  const cache = new VerifiedCache({ maxEntries: 20, ttlMs: 500 }, monotonic)
  const held = new Map<string, Held>()
  const gone: string[] = []
  const { gate, registry } = bareGate({ keyring, cache, matches: async (phc, token) => phc.text === `hash of ${token}` }, monotonic)
  const change = (): void => {
    const shape = random()
    if (shape < 0.5 && held.size < 12) {
      const token = keyText(random)
      if (held.has(token)) return
      const name = `k${Math.floor(random() * 1e9)}`
      const hashed = random() < 0.7
      const phc = hashed ? { phc: { ...dummyPhc(), text: `hash of ${token}` }, ...(random() < 0.8 ? { lookup: lookupOf(token) } : {}) } : {}
      const expires = random() < 0.3 ? { expiresAt: Math.floor(now / 1000) + Math.floor(random() * 5) } : {}
      const key = makeKey({ id: name, name, source: 'config', namespaces: [], admin: false, roles: [], enabled: true, ...phc, ...expires })
      keyring.add(key, hashed ? undefined : keyring.digestOf(token))
      held.set(token, { text: token, key })
    } else if (shape < 0.8 && held.size > 0) {
      const { text: token, key } = pick(random, [...held.values()])
      keyring.remove(key)
      cache.evict(key)
      held.delete(token)
      gone.push(token)
      if (gone.length > 20) gone.shift()
    } else now += Math.floor(random() * 1000)
  }
  const attempt = async (): Promise<void> => {
    const known = [...held.keys(), ...gone]
    const chosen = known.length === 0 || random() < 0.1 ? keyText(random) : pick(random, known)
    const header = headerOf(random, random() < 0.5 ? chosen : mutated(random, chosen))
    const token = tokenOf({ header: () => header })
    const found = token === undefined ? undefined : held.get(token)
    // A hash is not compared with what has the form of a JSON web token.
    const foreign = token !== undefined && token.split('.').length > 2 && !token.startsWith('svc_') && found?.key.phc !== undefined
    const answer = await gate.authenticate(credentialsOf(header))
    const fail = (why: string) => new Error(`seed ${seed}: ${why}: ${JSON.stringify(header)}`)
    if (token === undefined) {
      if (answer !== undefined) throw fail('an answer where there is no token')
    } else if (found === undefined || foreign || hasExpired(found.key, now)) {
      if (answer !== undefined && !(answer instanceof SvcError)) throw fail('let in')
      if (answer?.message.includes(token) && token.length > 6) throw fail('the answer shows the token')
    } else if (answer instanceof SvcError || (answer as Identity | undefined)?.principal !== found.key.name) throw fail(`not let in as ${found.key.name}`)
  }
  let tried = 0
  for (; goesOn(tried); tried++) {
    if (random() < 0.1) change()
    await attempt()
  }
  registry.close()
  return tried
}

if (process.argv[1] === import.meta.filename) {
  const seed = Number(process.argv[3] ?? Date.now() % 1e9)
  const until = Date.now() + Number(process.argv[2] ?? 10) * 1000
  console.log(`seed ${seed}: ${await fuzz(seed, () => Date.now() < until)} headers, each as it should be`)
}
