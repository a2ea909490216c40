/** Argon2 hashes as PHC strings: `$argon2id$v=19$m=19456,t=2,p=1$<salt>$<hash>`. Hashing runs in libuv's thread pool. */
import { randomBytes, timingSafeEqual } from 'node:crypto'
import { argon2d, argon2i, argon2id, hash } from 'argon2'

const TYPES: Record<string, number> = { argon2id, argon2i, argon2d }
const SALT_BYTES = 16
const HASH_BYTES = 32
const VERSION = 0x13
/** OWASP's first choice for Argon2id, as the documents have it. */
const COST = { m: 19_456, t: 2, p: 1 }
/** What a string from elsewhere may ask of this machine for one verification. */
const BOUNDS = { m: [8, 262_144], t: [1, 16], p: [1, 16], salt: [8, 64], hash: [16, 64] } as const

export interface Phc {
  text: string
  type: number
  version: number
  /** KiB, passes, lanes. */
  m: number
  t: number
  p: number
  salt: Buffer
  hash: Buffer
}

const FORM = /^\$(argon2id|argon2i|argon2d)(?:\$v=(16|19))?\$([a-z]=\d{1,9}(?:,[a-z]=\d{1,9}){2})\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)$/

/** @returns the parsed hash, or why it is none. */
export function parsePhc(text: string): Phc | string {
  const [, type, version = '16', parameters = '', salt = '', digest = ''] = FORM.exec(text) ?? []
  if (type === undefined) return 'it is no Argon2 PHC string of the form $argon2id$v=19$m=19456,t=2,p=1$<salt>$<hash>'
  const { m, t, p } = Object.fromEntries(parameters.split(',').map((pair) => [pair[0], Number(pair.slice(2))])) as Record<string, number | undefined>
  const [saltBytes, hashBytes] = [Buffer.from(salt, 'base64'), Buffer.from(digest, 'base64')]
  for (const [name, value] of Object.entries({ m, t, p, salt: saltBytes.length, hash: hashBytes.length })) {
    const [least, most] = BOUNDS[name as keyof typeof BOUNDS]
    if (value === undefined || value < least || value > most) return `its ${name} is ${value ?? 'missing'}; ${least} to ${most} are taken`
  }
  const found = { text, type: TYPES[type], version: Number(version), m: m as number, t: t as number, p: p as number, salt: saltBytes, hash: hashBytes }
  return found.m < 8 * found.p ? 'its m is below 8 times its p' : found
}

/** Whether it costs what keys that are made here cost. */
export function hasUsualCost({ type, version, m, t, p }: Phc): boolean {
  return type === argon2id && version === VERSION && m === COST.m && t === COST.t && p === COST.p
}

export async function hashText(text: string): Promise<Phc> {
  const salt = randomBytes(SALT_BYTES)
  return withText({
    type: argon2id,
    version: VERSION,
    ...COST,
    salt,
    hash: await derive(text, { type: argon2id, version: VERSION, ...COST, salt }, HASH_BYTES),
  })
}

/** Compared in constant time. */
export async function matches(phc: Phc, text: string): Promise<boolean> {
  return timingSafeEqual(await derive(text, phc, phc.hash.length), phc.hash)
}

/** A hash that nothing has, as dear to verify as any. */
export function dummyPhc(): Phc {
  return withText({ type: argon2id, version: VERSION, ...COST, salt: randomBytes(SALT_BYTES), hash: randomBytes(HASH_BYTES) })
}

function withText(phc: Omit<Phc, 'text'>): Phc {
  const [salt, digest] = [phc.salt, phc.hash].map((bytes) => bytes.toString('base64').replace(/=+$/, ''))
  return { ...phc, text: `$argon2id$v=${phc.version}$m=${phc.m},t=${phc.t},p=${phc.p}$${salt}$${digest}` }
}

function derive(text: string, { type, version, m, t, p, salt }: Omit<Phc, 'text' | 'hash'>, hashLength: number): Promise<Buffer> {
  return hash(text, { raw: true, type: type as 2, version, memoryCost: m, timeCost: t, parallelism: p, salt, hashLength })
}
