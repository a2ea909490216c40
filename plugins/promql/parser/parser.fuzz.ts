/**
 * Random queries, well formed and broken: nothing but ParseError is thrown, no text takes long, and what parses prints to a text that parses to
 * the same and can be shown in every form.
 * node plugins/promql/parser/parser.fuzz.ts [seconds] [seed]
 */
import { strictEqual } from 'node:assert'
import { type Random, seeded } from 'svcdb/lib/random'
import type { Expr } from '../ast.ts'
import { AGGREGATES, FUNCTIONS } from '../functions/signatures.ts'
import { toJson } from './json.ts'
import { parse } from './parse.ts'
import { ParseError } from './parse-error.ts'
import { pretty } from './pretty.ts'
import { print } from './print.ts'

const SLOW_MS = 1000
const pick = <T>(random: Random, list: readonly T[]): T => list[Math.floor(random() * list.length)]
const some = (random: Random, most: number, make: () => string) => Array.from({ length: Math.floor(random() * (most + 1)) }, make).join(', ')

const OPERATORS = '+ - * / % ^ atan2 == != < <= > >= </ >/ and or unless'.split(' ')
const NAMES = ['requests', 'errors:rate5m', 'sum', 'offset', 'fill', 'start', '_x', 'http.requests', '温度:sum']
const LABELS = ['code', 'le', '"http.method"', 'http.path', 'équipe', 'by', 'on', '__name__']
const STRINGS = ['"500"', "'a'", '`b\\`', '"\\u00e9\\""', '""', '"5.."', '"(a|b)+"', '"\\xff"']
/** Without Inf, which prints with a sign: `Inf ^ 2` prints as `+Inf ^ 2`, which is another tree of the same value. */
const NUMBERS = ['0', '1', '2.5', '.5', '1e3', '0x1F', '017', 'NaN', '5m', '1h30m', '1_000']
const DURATIONS = ['5m', '1h', '300', '0.5', 'step()', 'range()', 'min_of(5m, step())', '(5m + 1m)', '5m * 2', '-(1m)', '2 ^ 2']
/** None that begins with a parenthesis: operators that follow would belong to it, and the printed text may have it last. */
const OFFSETS = ['5m', '-5m', '+300', '0.5', 'step()', '-range()', 'max_of(5m, step())', '-(5m + 1m)']
const BROKEN = [
  '(',
  ')',
  '[',
  ']',
  '{',
  '}',
  ',',
  ':',
  '"',
  "'",
  '`',
  '\\',
  '@',
  '!',
  '=~',
  '#',
  '\n',
  '$',
  'é',
  '😀',
  '\ud800',
  '\ufffd',
  '5x',
  '0x',
  'bool',
  'offset',
]

function selector(random: Random): string {
  const matchers = () => some(random, 2, () => `${pick(random, LABELS)}${pick(random, ['=', '!=', '=~', '!~'])}${pick(random, STRINGS)}`)
  const name = random() < 0.85 ? pick(random, NAMES) : ''
  const braces = name === '' || random() < 0.4 ? `{${matchers()}${random() < 0.1 ? ', "q.name"' : ''}}` : ''
  return name + braces
}

function modifiers(random: Random): string {
  const at = random() < 0.15 ? ` @ ${pick(random, ['5', '-1.5', 'start()', 'end()', '1e9', '5m'])}` : ''
  const offset = random() < 0.2 ? ` offset ${pick(random, OFFSETS)}` : ''
  return random() < 0.5 ? at + offset : offset + at
}

function grouping(random: Random): string {
  return `(${some(random, 2, () => pick(random, LABELS))})`
}

function matching(random: Random): string {
  const bool = random() < 0.2 ? ' bool' : ''
  const on = random() < 0.3 ? ` ${pick(random, ['on', 'ignoring'])}${grouping(random)}` : ''
  const group = on !== '' && random() < 0.4 ? ` ${pick(random, ['group_left', 'group_right'])}${random() < 0.6 ? grouping(random) : ''}` : ''
  const fill = random() < 0.1 ? ` ${pick(random, ['fill(0)', 'fill_left(-1)', 'fill_right(5m) fill_left(Inf)'])}` : ''
  return bool + on + group + fill
}

/** An expression that is usually of the type asked for. */
function expression(random: Random, depth: number, type: string): string {
  const inner = (wanted: string) => expression(random, depth - 1, wanted)
  if (random() < 0.02) return inner(pick(random, ['scalar', 'vector', 'matrix', 'string']))
  if (type === 'string') return pick(random, STRINGS)
  if (type === 'matrix') {
    if (depth > 0 && random() < 0.3)
      return `(${inner('vector')})[${pick(random, DURATIONS)}:${random() < 0.5 ? pick(random, DURATIONS) : ''}]${modifiers(random)}`
    return `${selector(random)}[${pick(random, DURATIONS)}]${random() < 0.1 ? pick(random, [' anchored', ' smoothed']) : ''}${modifiers(random)}`
  }
  const shape = random()
  if (depth > 0 && shape < 0.3) return `${inner(type)} ${pick(random, OPERATORS)}${type === 'vector' ? matching(random) : ''} ${inner(type)}`
  if (depth > 0 && shape < 0.4) return `${pick(random, ['-', '+', ''])}(${inner(type)})`
  if (depth > 0 && shape < 0.7) {
    const { name, args } = pick(
      random,
      [...FUNCTIONS.values()].filter(({ returns }) => returns === type),
    )
    return `${name}(${args.map(inner).join(pick(random, [',', ', ', ' , ']))})`
  }
  if (type === 'scalar') return pick(random, NUMBERS)
  if (depth > 0 && shape < 0.9) {
    const op = pick(random, Object.keys(AGGREGATES) as (keyof typeof AGGREGATES)[])
    const { param } = AGGREGATES[op]
    const by = random() < 0.5 ? ` ${pick(random, ['by', 'without'])} ${grouping(random)} ` : ''
    const args = `(${param === undefined ? '' : `${inner(param)}, `}${inner('vector')})`
    return random() < 0.5 ? op + by + args : op + args + by
  }
  return selector(random) + modifiers(random)
}

function breakUp(random: Random, text: string): string {
  let out = text
  for (let i = 0; i <= random() * 3; i++) {
    const at = Math.floor(random() * (out.length + 1))
    const kind = random()
    if (kind < 0.3) out = out.slice(0, at) + out.slice(at + 1 + Math.floor(random() * 4))
    else if (kind < 0.8) out = out.slice(0, at) + pick(random, BROKEN) + out.slice(at)
    else if (kind < 0.9) out = out.slice(0, at)
    else out = out + out.slice(at)
  }
  return out
}

function checkTree(query: string, expr: Expr): void {
  const text = print(expr)
  // Shorter than a millisecond is a duration that has no text.
  if (text.includes('[0s')) return
  const from = JSON.stringify(query)
  try {
    strictEqual(print(parse(text)), text)
    strictEqual(print(parse(pretty(expr))), text)
    JSON.stringify(toJson(expr))
  } catch (error) {
    throw new Error(`cannot print ${from}: ${text}`, { cause: error })
  }
}

function attempt(query: string): Expr | undefined {
  try {
    return parse(query)
  } catch (error) {
    if (!(error instanceof ParseError)) throw new Error(`cannot parse ${JSON.stringify(query)}`, { cause: error })
    if (!/^(\d+:\d+|unknown position): parse error: ./.test(error.message)) throw new Error(`odd message for ${JSON.stringify(query)}: ${error.message}`)
    return undefined
  }
}

/** Runs while `goesOn(queries)` holds; returns how many queries came, and how many of them were good. @throws when one behaves otherwise. */
export function fuzz(seed: number, goesOn: (queries: number) => boolean): { queries: number; good: number } {
  const random = seeded(seed)
  let queries = 0
  let good = 0
  for (; goesOn(queries); queries++) {
    const plain = expression(random, Math.floor(random() * 6), pick(random, ['vector', 'vector', 'scalar', 'matrix', 'string']))
    const query = random() < 0.5 ? plain : breakUp(random, plain)
    const start = performance.now()
    const expr = attempt(query)
    if (expr !== undefined) {
      good++
      checkTree(query, expr)
    }
    if (performance.now() - start > SLOW_MS) throw new Error(`seed ${seed}: slow for ${JSON.stringify(query)}`)
  }
  return { queries, good }
}

if (process.argv[1] === import.meta.filename) {
  const seed = Number(process.argv[3] ?? Date.now() % 1e9)
  const until = Date.now() + Number(process.argv[2] ?? 10) * 1000
  const { queries, good } = fuzz(seed, () => Date.now() < until)
  console.log(`seed ${seed}: ${queries} queries, ${good} of them good`)
}
