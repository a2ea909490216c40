import { AGGREGATES } from '../functions/signatures.ts'
import { byteLength, quote } from './go-text.ts'

/** Punctuation, operators and keywords have their own canonical text as type. */
export interface Token {
  type: string
  /** As written: `SUM` has the type `sum`. */
  text: string
  start: number
  end: number
}

export const IDENTIFIER = 'identifier'
/** A name with a colon in it. */
const METRIC_IDENTIFIER = 'metric identifier'
export const NUMBER = 'number'
export const DURATION = 'duration'
export const STRING = 'string'
export const END = 'end of input'

const AGGREGATORS = new Set<string>(Object.keys(AGGREGATES))
/** Operators of two sides, and of selectors and modifiers. */
export const OPERATORS: ReadonlySet<string> = new Set('+ - * / % ^ == != <= < >= > </ >/ =~ !~ @ and or unless atan2'.split(' '))
/** Keywords that can also name a metric. */
const NAME_KEYWORDS = 'offset smoothed anchored by without fill fill_left fill_right'.split(' ')
export const KEYWORDS: ReadonlySet<string> = new Set([...NAME_KEYWORDS, 'on', 'ignoring', 'group_left', 'group_right', 'bool'])
/** Words that mean something in durations and after `@`. */
const DURATION_WORDS = new Set(['step', 'range', 'max_of', 'min_of'])
const PREPROCESSORS = new Set([...DURATION_WORDS, 'start', 'end'])
const WORD_OPERATORS = ['and', 'or', 'unless', 'atan2']
const RESERVED = new Set([...AGGREGATORS, ...KEYWORDS, ...PREPROCESSORS, ...WORD_OPERATORS])
const METRIC_NAMES = new Set([IDENTIFIER, METRIC_IDENTIFIER, ...AGGREGATORS, ...NAME_KEYWORDS, ...PREPROCESSORS, 'and', 'or', 'unless'])
const LABEL_NAMES = new Set([IDENTIFIER, METRIC_IDENTIFIER, ...RESERVED])

/** The token type of a word outside braces. */
export function wordType(word: string): string {
  const lower = word.toLowerCase()
  if (RESERVED.has(lower)) return lower
  if (lower === 'inf' || lower === 'nan') return NUMBER
  return word.includes(':') ? METRIC_IDENTIFIER : IDENTIFIER
}

export function durationWord(word: string): string | undefined {
  const lower = word.toLowerCase()
  return DURATION_WORDS.has(lower) ? lower : undefined
}

export function isAggregator(type: string): boolean {
  return AGGREGATORS.has(type)
}

export function isPreprocessor(type: string): boolean {
  return PREPROCESSORS.has(type)
}

export function isMetricName(type: string): boolean {
  return METRIC_NAMES.has(type)
}

/** Of labels in `by (...)` and the like, where keywords are plain names. */
export function isLabelName(type: string): boolean {
  return LABEL_NAMES.has(type)
}

/** The token as error messages name it. */
export function describe(token: Token): string {
  const { type, text } = token
  if (type === END) return type
  if (type === IDENTIFIER || type === METRIC_IDENTIFIER) return `${type} ${quote(text)}`
  if (type === NUMBER || type === DURATION || type === STRING) return `${type} ${shorten(text)}`
  if (KEYWORDS.has(type)) return `<${text}>`
  if (OPERATORS.has(type)) return `<op:${text}>`
  if (AGGREGATORS.has(type)) return `<aggr:${text}>`
  return shorten(text)
}

function shorten(text: string): string {
  return byteLength(text) > 10 ? `${quote([...text].slice(0, 10).join(''))}...` : quote(text)
}
