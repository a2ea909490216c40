/**
 * Random bodies through the parser and through a plain one; random numbers against Number(text) and BigInt.
 * node plugins/line_protocol/parser.fuzz.ts [seconds] [seed]
 */
import { deepStrictEqual } from 'node:assert'
import { WriteBatch } from 'svcdb/lib/columns'
import { atOnce } from 'svcdb/lib/event-loop'
import { type Random, seeded } from 'svcdb/lib/random'
import { FakeResolver, pointsOf } from 'svcdb/testkit'
import { DEFAULT_LIMITS } from './limits.ts'
import type { Precision } from './line-time.ts'
import { LineParser } from './parser.ts'
import { referenceParse } from './testing-reference.ts'

const NOW = 1_700_000_000_123_456_789n
const LIMITS = { ...DEFAULT_LIMITS, maxNameBytes: 12, maxTagValueBytes: 12, maxTags: 3, maxFields: 6, maxStringBytes: 20 }

const pick = <T>(random: Random, list: readonly T[]): T => list[Math.floor(random() * list.length)]
const digits = (random: Random, most: number) => Array.from({ length: Math.ceil(random() * most) }, () => Math.floor(random() * 10)).join('')
const ODD = ['\\', '\\\\', '\\,', '\\=', '\\ ', ',', '=', ' ', '"', '\\"', '\u0000', '\u0001', '\t', '\r', '#', 'é', '漢', '_time', 'i', '-', '.', 'e5', '\n']

function number(random: Random): string {
  const sign = random() < 0.3 ? '-' : ''
  const shape = random()
  if (shape < 0.2) return `${sign}${digits(random, 22)}${pick(random, ['', 'i', 'u', 'd', 'x'])}`
  if (shape < 0.5) return `${sign}${digits(random, 20)}.${digits(random, 24)}${pick(random, ['', '', '', 'd', 'e3', 'e-7', 'E+12', 'i'])}`
  if (shape < 0.7) return String((random() - 0.5) * 10 ** Math.floor(random() * 40 - 20))
  if (shape < 0.8)
    return pick(random, [
      '9223372036854775807i',
      '9223372036854775808i',
      '-9223372036854775808i',
      '-9223372036854775809i',
      '18446744073709551615u',
      '18446744073709551616u',
    ])
  if (shape < 0.9)
    return pick(random, [
      '0',
      '-0',
      '1.',
      '.5',
      '-.5',
      '-',
      '1e400',
      '1e-400',
      '1e',
      'NaN',
      'inf',
      '00012',
      '9007199254740993',
      '4.35',
      '0.1',
      '-0d',
      '0.00d',
      '5e-324',
    ])
  return String(Math.floor(random() * 1000) / 100)
}

function word(random: Random): string {
  const base = pick(random, ['a', 'b', 'cpu', 'host', 'value', 'x y'.replace(' ', '\\ '), 'long_long_name'])
  return random() < 0.85 ? base : base + pick(random, ODD) + pick(random, ['', 'z', '\\'])
}

function line(random: Random): string {
  const tags = Array.from({ length: Math.floor(random() * 4.2) }, () => `,${word(random)}=${word(random)}`).join('')
  const value = () => {
    const shape = random()
    if (shape < 0.7) return number(random)
    if (shape < 0.8) return pick(random, ['t', 'F', 'true', 'False', 'TRUE', 'truE', ''])
    return `"${Array.from({ length: random() * 8 }, () => pick(random, ['a', ' ', ',', '=', '\\"', '\\\\', '\\n', 'é', 'long text'])).join('')}"`
  }
  const fields = Array.from({ length: 1 + Math.floor(random() * 6.3) }, () => `${word(random)}=${value()}`).join(',')
  const time = random() < 0.7 ? ` ${random() < 0.2 ? '-' : ''}${digits(random, 20)}` : pick(random, ['', ' ', ' 1x', ' -', '  5 '])
  let text = `${word(random)}${tags}${pick(random, [' ', ' ', ' ', '  ', ''])}${fields}${time}${pick(random, ['', '', '\r', ' '])}`
  if (random() < 0.15) {
    const at = Math.floor(random() * text.length)
    text = text.slice(0, at) + pick(random, ODD) + text.slice(at + Math.floor(random() * 3))
  }
  // A string that spans lines needs more than splitting at newlines, which is all the reference does; parser.test.ts has those.
  return text.split('\n').some(opensString) ? 'skipped' : text
}

/** Whether a quoted value of this physical line is not closed on it. */
function opensString(text: string): boolean {
  const fields = text.replace(/^[ \t\r]*(?:\\[\s\S]|[^\\ ])*/, '')
  return fields.replace(/="(?:\\[\s\S]|[^"\\])*"/g, '=').includes('="')
}

const VALUES: readonly ((n: number) => string)[] = [(n) => `${n / 4}`, (n) => `${n}i`, (n) => `${n}u`, (n) => (n % 2 === 0 ? 't' : 'f'), (n) => `"s${n}"`]

/** Hundreds of lines that set few of many fields, so that their table is divided. New fields come all the time, and most have another type in a bad line first. */
function sparseBody(random: Random): string {
  const count = 300 + Math.floor(random() * 700)
  const types = Array.from({ length: 20 + Math.floor(random() * 20) }, () => pick(random, VALUES))
  const lines: string[] = []
  while (lines.length < count) {
    const i = lines.length
    const isNew = random() < 0.15
    if (isNew) types.push(pick(random, VALUES))
    const isBad = random() < (isNew ? 0.8 : 0.1)
    const places = Array.from({ length: 1 + Math.floor(random() * 3) }, () => Math.floor(random() * types.length))
    if (isNew || random() < 0.5) places.push(types.length - 1)
    const fields = places.map((place) => `f${place}=${(isBad ? pick(random, VALUES) : types[place])(i)}`).join(',')
    lines.push(`${random() < 0.9 ? 'm' : 'other'},h=${i % 50} ${fields}${isBad ? pick(random, [',y=zz', ',y', ' 1x']) : ` ${i}`}`)
  }
  return lines.join('\n')
}

/** Runs while `goesOn(bodies)` holds; returns how many bodies were compared. @throws when the parsers differ. */
export function fuzz(seed: number, goesOn: (bodies: number) => boolean): number {
  const random = seeded(seed)
  let bodies = 0
  while (goesOn(bodies)) {
    const resolver = new FakeResolver()
    const parser = new LineParser(resolver, 'default', { limits: LIMITS, maxInternedBytes: 256, maxFailures: 1e9, seed: bodies })
    const batch = new WriteBatch(resolver)
    const pool = Array.from({ length: 6 }, () => line(random))
    for (let round = 0; round < 4; round++, bodies++) {
      const few = () => Array.from({ length: 1 + Math.floor(random() * 12) }, () => (random() < 0.5 ? pick(random, pool) : line(random))).join('\n')
      const body = random() < 0.02 ? sparseBody(random) : few()
      const precision = pick(random, ['ns', 'us', 'ms', 's', 'm', 'h', 'auto'] as Precision[])
      const expected = referenceParse(body, precision, NOW, LIMITS)
      const outcome = atOnce(parser.parse(Buffer.from(body), batch, { precision, now: NOW, maxPoints: 1e9 }))
      try {
        deepStrictEqual(pointsOf(batch, resolver), expected.points)
        deepStrictEqual(
          outcome.failures.map((f) => f.line),
          expected.bad,
        )
      } catch (error) {
        throw new Error(
          `parsers differ, seed ${seed}, body ${bodies}, precision ${precision}: ${JSON.stringify(body)}\n${(error as Error).message}\n${JSON.stringify(outcome.failures)}`,
        )
      }
      batch.reset()
    }
  }
  return bodies
}

if (process.argv[1] === import.meta.filename) {
  const seed = Number(process.argv[3] ?? Date.now() % 1e9)
  const until = Date.now() + Number(process.argv[2] ?? 10) * 1000
  console.log(`seed ${seed}: ${fuzz(seed, () => Date.now() < until)} bodies, no difference`)
}
