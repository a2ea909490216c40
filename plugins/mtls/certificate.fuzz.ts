/**
 * Certificates put together here byte by byte, with names that look like several, through the reader: it answers the names that were put in, or refuses
 * those that it should; and damaged ones, which it reads or refuses.
 * node plugins/mtls/certificate.fuzz.ts [seconds] [seed]
 */
import { deepStrictEqual, ok } from 'node:assert'
import { generateKeyPairSync } from 'node:crypto'
import { type Random, seeded } from 'svcdb/lib/random'
import { alternativeNames, type Certificate, readCertificate } from './certificate.ts'
import type { IdentityKind } from './config.ts'

/** Tag, length and contents of a value in DER. */
function der(tag: number, ...parts: Uint8Array[]): Buffer {
  const body = Buffer.concat(parts)
  const { length } = body
  const head = length < 0x80 ? [tag, length] : length < 0x100 ? [tag, 0x81, length] : [tag, 0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from(head), body])
}
const SEQUENCE = 0x30
const hex = (text: string): Buffer => Buffer.from(text, 'hex')
const COMMON_NAME = hex('0603550403')
const ORGANIZATION = hex('060355040a')
const utf8 = (text: string): Buffer => der(0x0c, Buffer.from(text))
const attribute = (type: Buffer, text: string): Buffer => der(SEQUENCE, type, utf8(text))
const ECDSA_SHA256 = der(SEQUENCE, hex('06082a8648ce3d040302'))
const UPN = hex('060a2b060104018237140203')
const SPKI = generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey.export({ type: 'spki', format: 'der' })
const time = (text: string): Buffer => der(0x17, Buffer.from(text))

/** @param rdns sets of attributes. @param names GeneralNames. */
function certificate(rdns: Buffer[][], names: Buffer[]): Buffer {
  const subject = der(SEQUENCE, ...rdns.map((attributes) => der(0x31, ...attributes)))
  const extension = der(SEQUENCE, hex('0603551d11'), der(0x04, der(SEQUENCE, ...names)))
  const parts = [
    hex('a003020102'),
    hex('020107'),
    ECDSA_SHA256,
    der(SEQUENCE),
    der(SEQUENCE, time('250101000000Z'), time('490101000000Z')),
    subject,
    SPKI,
    ...(names.length === 0 ? [] : [der(0xa3, der(SEQUENCE, extension))]),
  ]
  return der(SEQUENCE, der(SEQUENCE, ...parts), ECDSA_SHA256, hex('030100'))
}

const FRAGMENTS = [
  'a',
  'root',
  '.',
  ', ',
  ',',
  ', DNS:',
  'DNS:',
  ', URI:',
  'email:',
  '"',
  "'",
  '\\',
  '\\"',
  '\\u0022',
  ' + CN=',
  '\nCN=',
  '/CN=',
  '=',
  '#',
  ' ',
  '\0',
  '\t',
  '\x7f',
  '%',
  '*',
  ':',
]
const WIDE = ['\u00fc', '\u202e', '\u200b', '\u4e2d', '\u{1f600}', '\u2028', '\u0085']

const pick = <T>(random: Random, from: readonly T[]): T => from[Math.floor(random() * from.length)]
/** Mostly plain, so that enough is taken. */
function text(random: Random, wide: boolean): string {
  if (random() < 0.3) return pick(random, ['ann', 'bob.example', 'spiffe://x/y'])
  let made = ''
  for (let i = Math.floor(random() * 5); i >= 0; i--) made += wide && random() < 0.1 ? pick(random, WIDE) : pick(random, FRAGMENTS)
  return made
}

interface Sample {
  bytes: Buffer
  commonNames: string[]
  names: Record<'san_dns' | 'san_uri' | 'san_email', string[]>
}

function sample(random: Random): Sample {
  const names: Sample['names'] = { san_dns: [], san_uri: [], san_email: [] }
  const general: Buffer[] = []
  for (let i = Math.floor(random() * 4); i > 0; i--) {
    const kind = pick(random, ['san_dns', 'san_uri', 'san_email', 'upn', 'other', 'directory', 'address'] as const)
    const value = text(random, false)
    const bytes = Buffer.from(value, 'latin1')
    if (kind === 'san_dns' || kind === 'san_uri' || kind === 'san_email') {
      names[kind].push(value)
      general.push(der({ san_email: 0x81, san_dns: 0x82, san_uri: 0x86 }[kind], bytes))
    } else if (kind === 'upn') general.push(der(0xa0, UPN, der(0xa0, utf8(value))))
    else if (kind === 'other') general.push(der(0xa0, hex('06032a0304'), der(0xa0, utf8(value))))
    else if (kind === 'directory') general.push(der(0xa4, der(SEQUENCE, der(0x31, attribute(COMMON_NAME, value)))))
    else general.push(der(0x87, hex('0a000001')))
  }
  const commonNames: string[] = []
  const rdns: Buffer[][] = []
  for (let i = Math.floor(random() * 3); i >= 0; i--) {
    const value = text(random, true)
    const common = random() < 0.5 && (commonNames.length === 0 || random() < 0.2)
    if (common) commonNames.push(value)
    const made = attribute(common ? COMMON_NAME : ORGANIZATION, value)
    if (rdns.length > 0 && random() < 0.3) rdns.at(-1)?.push(made)
    else rdns.push([made])
  }
  return { bytes: certificate(rdns, general), commonNames, names }
}

const plain = (name: string): boolean => /^[\x21-\x7e]+$/.test(name)
const visible = (name: string): boolean => !/[\p{Cc}\p{Cf}\p{Cs}\u2028\u2029]|^\s|\s$/u.test(name)

/** What the reader is to answer; undefined = it refuses. */
function expectedNames({ commonNames, names }: Sample, identity: IdentityKind): string[] | undefined {
  if (identity === 'cn' && commonNames.length > 1) return undefined
  const common = identity === 'cn' && commonNames.length === 1 && commonNames[0] !== ''
  const found = common ? commonNames : names[identity === 'cn' ? 'san_dns' : identity]
  return found.length > 0 && found.every(common ? visible : plain) ? [...new Set(found)] : undefined
}

function readOr(bytes: Buffer, identity: IdentityKind): Certificate | undefined {
  try {
    return readCertificate(bytes, identity)
  } catch {
    return undefined
  }
}

const KINDS: readonly IdentityKind[] = ['cn', 'san_dns', 'san_uri', 'san_email']

/** Runs while `goesOn(names)` holds. @throws when a certificate is read wrongly. */
export function fuzz(seed: number, goesOn: (names: number) => boolean): { read: number; refused: number } {
  const random = seeded(seed)
  const counts = { read: 0, refused: 0 }
  while (goesOn(counts.read + counts.refused)) {
    const made = sample(random)
    for (const identity of KINDS) {
      const expected = expectedNames(made, identity)
      deepStrictEqual(readOr(made.bytes, identity)?.names, expected, `seed ${seed}, ${identity}: ${made.bytes.toString('hex')}`)
      counts[expected === undefined ? 'refused' : 'read']++
    }
    const corrupted = Buffer.from(made.bytes)
    for (let i = Math.floor(random() * 3); i >= 0; i--) corrupted[Math.floor(random() * corrupted.length)] = Math.floor(random() * 256)
    for (const identity of KINDS) {
      const read = readOr(corrupted, identity)
      ok(read === undefined || (read.names.length > 0 && read.names.every(read.kind === 'cn' ? visible : plain)), corrupted.toString('hex'))
    }
    try {
      alternativeNames(text(random, true))
    } catch (error) {
      ok((error as Error).message.endsWith('cannot be read'), String(error))
    }
  }
  return counts
}

if (import.meta.main) {
  const seed = Number(process.argv[3] ?? Date.now() % 2 ** 31)
  const until = Date.now() + Number(process.argv[2] ?? 10) * 1000
  console.log({ seed, ...fuzz(seed, () => Date.now() < until) })
}
