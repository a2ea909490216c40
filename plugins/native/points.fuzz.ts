/**
 * Random JSON bodies through the column parser and through JSON.parse. node plugins/native/points.fuzz.ts [seconds] [seed]
 * Values are small enough for JSON.parse to be right; what a double cannot hold is in points.test.ts.
 */

import { deepStrictEqual } from 'node:assert'
import { WriteBatch } from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'
import { atOnce } from 'svcdb/lib/event-loop'
import { type Random, seeded } from 'svcdb/lib/random'
import { type DecodedPoint, FakeResolver, pointsOf } from 'svcdb/testkit'
import { PointsParser } from './points.ts'

const NOW = 77n

const pick = <T>(random: Random, list: readonly T[]): T => list[Math.floor(random() * list.length)]
const NAMES = ['a', 'b', 'usage', 'x y', 'quo"te', 'back\\slash', 'é', '漢字', 'tab\t', 'nul', '__proto__', 'constructor', '']
const WORDS = [...NAMES, 'line\nbreak', '\u2028', 'true', '{}', 'a longer value that does not fit a short loop, of more than sixty-four bytes']
const BROKEN = ['{', '}', '[', ']', ',', ':', '"', '\\', 'null', '1', 'tru', '.', 'e', '\u0001', '01', '{"a":1}', '"timestamp":1.5']

function value(random: Random): unknown {
  const shape = random()
  if (shape < 0.6) return pick(random, [0, 1, -1, 0.1, 1.5e-9, 123456789.123, -4.35, 1e21, 5e-324, random() * 1000, Math.round(random() * 1e6)])
  if (shape < 0.75) return random() < 0.5
  if (shape < 0.95) return pick(random, WORDS)
  return { decimal: pick(random, ['1', '-0.50', '12.340', '+.5', '.5', '5.', '+-1']) }
}

function point(random: Random): Record<string, unknown> {
  const entries: [string, unknown][] = [['measurement', pick(random, ['cpu', 'm"e\\m', 'é'])]]
  if (random() < 0.7) entries.push(['tags', ownObject(random, 3, () => pick(random, WORDS))])
  entries.push(['fields', ownObject(random, 5, () => value(random))])
  if (random() < 0.7) entries.push(['timestamp', Math.round((random() - 0.3) * 2 ** 50)])
  if (random() < 0.05) entries.push([pick(random, NAMES), 1])
  return Object.fromEntries(random() < 0.6 ? entries : entries.sort(() => random() - 0.5))
}

function ownObject(random: Random, most: number, make: () => unknown): Record<string, unknown> {
  return Object.fromEntries(Array.from({ length: Math.floor(random() * (most + 1)) }, () => [pick(random, NAMES), make()]))
}

/** What JSON.parse makes of the body, or undefined when it is to be refused. */
function reference(body: string): DecodedPoint[] | undefined {
  let points: unknown
  try {
    points = JSON.parse(body)
  } catch {
    return undefined
  }
  if (!Array.isArray(points)) return undefined
  const types = new Map<string, string>()
  const decoded: DecodedPoint[] = []
  for (const [position, given] of points.entries()) {
    if (!isObject(given) || Object.keys(given).some((key) => !['measurement', 'tags', 'fields', 'timestamp'].includes(key))) return undefined
    const { measurement, tags = {}, fields, timestamp = Number(NOW) } = given
    if (typeof measurement !== 'string' || !isObject(tags) || !isObject(fields) || !Number.isInteger(timestamp)) return undefined
    if (Object.values(tags).some((tag) => typeof tag !== 'string') || Object.keys(fields).length === 0) return undefined
    for (const [name, field] of Object.entries(fields)) {
      if (!['number', 'boolean', 'string'].includes(typeof field) && !(isObject(field) && typeof field.decimal === 'string' && Object.keys(field).length === 1))
        return undefined
      const key = JSON.stringify([measurement, name])
      const type = types.get(key) ?? typeof field
      if (type !== typeof field || field === Number.POSITIVE_INFINITY || field === Number.NEGATIVE_INFINITY) return undefined
      if (isObject(field)) {
        if (!/^[+-]?(\d+\.?\d*|\.\d+)$/.test(field.decimal as string)) return undefined
        field.decimal = decimalText(field.decimal as string)
      }
      types.set(key, type)
    }
    const present = Object.entries(tags as Record<string, string>).filter(([, tag]) => tag !== '')
    decoded.push({
      position,
      measurement,
      tags: Object.fromEntries(present.sort(([a], [b]) => (a < b ? -1 : 1))),
      time: BigInt(timestamp as number),
      fields: fields as DecodedPoint['fields'],
    })
  }
  return decoded
}

/** Without needless leading zeros and minus zero, as the batch gives it back. */
function decimalText(text: string): string {
  const [whole, fraction = ''] = text.replace(/^[-+]/, '').split('.')
  const body = `${whole.replace(/^0+(?=.)/, '') || '0'}${fraction === '' ? '' : `.${fraction}`}`
  return text.startsWith('-') && /[1-9]/.test(text) ? `-${body}` : body
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value)

/** Of a body that JSON.parse takes, which keeps the last of two. */
function hasMemberTwice(body: string): boolean {
  const members = (value: unknown): number =>
    typeof value !== 'object' || value === null
      ? 0
      : Object.values(value).reduce<number>((sum, each) => sum + members(each), Array.isArray(value) ? 0 : Object.keys(value).length)
  return (body.match(/"(?:[^"\\]|\\.)*"\s*:/g) ?? []).length > members(JSON.parse(body))
}

/** Runs while `goesOn(bodies)` holds; returns how many bodies were compared. @throws when the parsers differ. */
export function fuzz(seed: number, goesOn: (bodies: number) => boolean): number {
  const random = seeded(seed)
  let bodies = 0
  while (goesOn(bodies)) {
    const resolver = new FakeResolver()
    const parser = new PointsParser(resolver, 'default', 512, bodies)
    for (let round = 0; round < 4; round++) {
      const batch = new WriteBatch(resolver)
      const points = Array.from({ length: Math.floor(random() * 5) }, () => point(random))
      let body = JSON.stringify(points, null, random() < 0.3 ? 2 : undefined)
      const broken = random() < 0.3
      if (broken) {
        const at = Math.floor(random() * body.length)
        body = body.slice(0, at) + pick(random, BROKEN) + body.slice(at + Math.floor(random() * 3))
      }
      bodies++
      if (broken && /\d{16}/.test(body)) continue // may be beyond a double
      // V8 of Node.js 24: once JSON.parse has seen {"a":1,"b\\":1}, it reads the last key of {"a":1,"b\t":1} as the earlier one.
      if (broken && body.includes('\\\\"')) continue
      const expected = reference(body)
      let found: DecodedPoint[] | undefined
      let message = ''
      try {
        atOnce(parser.parse(Buffer.from(body), batch, { now: NOW, maxPoints: 100, maxFields: 100 }))
        found = pointsOf(batch, resolver)
      } catch (error) {
        if (!(error instanceof SvcError)) throw error
        message = error.message
        // Breaking a body can make what JSON.parse is laxer about: a member twice, a time such as 1e3.
        if (broken && /occurs twice|is not an integer of nanoseconds/.test(message)) continue
        // The first of the two was refused, before the second came.
        if (broken && expected !== undefined && hasMemberTwice(body)) continue
      }
      try {
        deepStrictEqual(found, expected)
      } catch (error) {
        throw new Error(`parsers differ, seed ${seed}, body ${bodies}: ${JSON.stringify(body)}\n${(error as Error).message}\n${message}`)
      }
    }
  }
  return bodies
}

if (process.argv[1] === import.meta.filename) {
  const seed = Number(process.argv[3] ?? Date.now() % 1e9)
  const until = Date.now() + Number(process.argv[2] ?? 10) * 1000
  console.log(`seed ${seed}: ${fuzz(seed, () => Date.now() < until)} bodies, no difference`)
}
