/**
 * Random statements, whole and broken: what is taken reads the same when it is written again, and all else is refused in one sentence with a place that is within
 * the text, in time that is linear in it. node plugins/triggers/statement/parse.fuzz.ts [seconds] [seed]
 */

import { isDeepStrictEqual } from 'node:util'
import { SvcError } from 'svcdb/lib/errors'
import { type Random, seeded } from 'svcdb/lib/random'
import { createText, parseStatement } from './parse.ts'

const LIMITS = { maxBytes: 100_000, maxComparisons: 1000, maxDepth: 50, maxChannels: 10 }
const WORDS = [
  'CREATE',
  'TRIGGER',
  'ON',
  'WHEN',
  'AND',
  'OR',
  'DELIVER',
  'COOLDOWN',
  'INTERVAL',
  'SIGNALS',
  'WITHIN',
  'BY',
  'SHOW',
  'DROP',
  'ALTER',
  'log',
  'webhook',
  '(',
  ')',
  ',',
  "'",
  '"',
]
const BITS = [...WORDS, '>', '<>', '=', '<=', '1', '-1.5e3', "'a'", '"x y"', 'usage', 'é', '\u0000', '💥', '\n', ' ', "'5m'", ';', '--', '/*', '.', 'e', '+']

const pick = <T>(random: Random, list: readonly T[]): T => list[Math.floor(random() * list.length)]

function condition(random: Random, depth: number): string {
  if (depth > 0 && random() < 0.5) {
    const parts = Array.from({ length: 1 + Math.floor(random() * 3) }, () => condition(random, depth - 1))
    const joined = parts.join(pick(random, [' AND ', ' or ', '\nOR ']))
    return random() < 0.7 ? `(${joined})` : joined
  }
  const name = pick(random, ['usage', 'a.b', '"x ""y"', '"é💥"', 'host:1', '_'])
  const operator = pick(random, ['=', '<>'])
  return random() < 0.4
    ? `${name} ${operator} '${pick(random, ['', "it''s", 'a', '\n', '💥'])}'`
    : `${name}${pick(random, ['>', '<', '>=', '<=', '=', '<>'])}${pick(random, ['1', '-1', '+.5', '1.', '1e5', '1E-30', '0', '123456789012345678901234567890'])}`
}

function statement(random: Random): string {
  const name = pick(random, ['a', '1', 'A_b', '_', 'x'.repeat(256)])
  if (random() < 0.2) return pick(random, ['SHOW TRIGGERS', `DROP TRIGGER ${name}`, `ALTER TRIGGER ${name} ENABLE`, `alter trigger ${name} disable`])
  const deliver = random() < 0.5 ? '' : ` DELIVER ${pick(random, ['log', "webhook('https://a.example')", "log, webhook('x')", "webhook('it''s')"])}`
  const pause = random() < 0.5 ? '' : ` COOLDOWN INTERVAL '${pick(random, ['5m', '0s', '1h 30m', '7 days', '1ns', '365d'])}'`
  if (random() < 0.2) {
    const by = pick(random, ['', ' BY (host)', ' by ("a b", host)'])
    return `CREATE TRIGGER ${name} ON SIGNALS (a, b_2) WITHIN INTERVAL '5m'${by}${deliver}${pause}`
  }
  return `CREATE TRIGGER ${name} ON ${pick(random, ['cpu', '"a b"', 'x.y:z'])} WHEN ${condition(random, 4)}${deliver}${pause}`
}

function broken(random: Random, text: string): string {
  const at = Math.floor(random() * (text.length + 1))
  const shape = random()
  if (shape < 0.3) return text.slice(0, at)
  if (shape < 0.6) return text.slice(0, at) + pick(random, BITS) + text.slice(at)
  if (shape < 0.8) return text.slice(0, at) + text.slice(at + 1 + Math.floor(random() * 5))
  if (shape < 0.9) return Array.from({ length: Math.floor(random() * 60) }, () => pick(random, BITS)).join(pick(random, ['', ' ']))
  return pick(random, ['(', "'", '"', ' ', '1', 'a>1 OR ', '-']).repeat(Math.floor(random() * 3000))
}

/** Runs while `goesOn(tried)` holds. @returns how many were tried, and how many taken. @throws Error with the seed. */
export function fuzz(seed: number, goesOn: (tried: number) => boolean): { tried: number; taken: number } {
  const random = seeded(seed)
  let [tried, taken] = [0, 0]
  while (goesOn(tried)) {
    const whole = statement(random)
    const text = random() < 0.5 ? whole : broken(random, whole)
    const began = performance.now()
    const fail = (why: string) => new Error(`${why}: ${JSON.stringify(text)} (seed ${seed})`)
    try {
      const read = parseStatement(text, LIMITS)
      taken++
      if (read.kind === 'create' && !isDeepStrictEqual(parseStatement(createText(read), LIMITS), read)) throw fail('reads otherwise when written again')
    } catch (error) {
      if (!(error instanceof SvcError) || error.code !== 'BAD_REQUEST')
        throw error instanceof Error && error.message.includes('seed') ? error : fail(String(error))
      const place = Number(/^cannot read the statement at character (\d+): /.exec(error.message)?.[1])
      if (!(place >= 1 && place <= text.length + 1)) throw fail(`names a place that is not there, ${error.message}`)
      if (text === whole) throw fail(`is refused, ${error.message}`)
    }
    if (performance.now() - began > 1000) throw fail('takes too long')
    tried++
  }
  return { tried, taken }
}

if (import.meta.main) {
  const [seconds = '10', seed = String(Date.now() % 1_000_000)] = process.argv.slice(2)
  const until = Date.now() + Number(seconds) * 1000
  const { tried, taken } = fuzz(Number(seed), () => Date.now() < until)
  process.stdout.write(`seed ${seed}: ${tried} statements, ${taken} taken\n`)
}
