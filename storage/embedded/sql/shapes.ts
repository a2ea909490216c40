/**
 * Trees of statements by their shape: the text with its literals taken out. Dashboards ask the same over and over, with other times and other tags: asking
 * DuckDB's parser takes longer than all else that such a statement needs. A shape is syntax alone: it knows nothing of namespaces or measurements.
 *
 * What a literal may be is narrow: a string in plain quotes, an integer of 11 to 18 digits, which are all of one type, or of ten (the seconds of our
 * time), which are of another. A shape is kept when DuckDB has read it
 * with marks in the places of literals, found each of them exactly once as a constant of that type, and the tree, with the literals put back, is the statement's.
 */
import { isDeepStrictEqual } from 'node:util'
import type { Node } from './ast.ts'

export interface Shape {
  key: string
  literals: readonly (string | bigint)[]
  /** The text with marks in the places of the literals. */
  marked: string
}

const MAX_LITERALS = 64
const LITERAL_START = /['"$\d]|--|\/\*|[A-Za-z_\u0080-\uffff]/g
const WORD = /[A-Za-z0-9_$\u0080-\uffff]*/y
const NUMBER = /[0-9A-Za-z_.]*/y
const LONG = /^[1-9]\d{10,17}$/
const SECONDS = /^1\d{9}$/
const SECONDS_DIGITS = 10
const MARK = '\u0001literal '
const MARK_NUMBER = 771_100_000_000_000_000n
const MARK_SECONDS = 2_000_000_000n
/** In a key a literal is one such character, and one of seconds two: the text itself has none. */
const PLACE = MARK[0]

/** Undefined for a text whose literals are not surely found: one with comments, dollar quotes, or strings with a prefix. */
export function shapeOf(text: string): Shape | undefined {
  if (text.includes(MARK[0])) return undefined
  const literals: (string | bigint)[] = []
  let key = ''
  let marked = ''
  let copied = 0
  LITERAL_START.lastIndex = 0
  for (let found = LITERAL_START.exec(text); found !== null; found = LITERAL_START.exec(text)) {
    const at = found.index
    const c = found[0]
    if (c === '--' || c === '/*') return undefined
    let end: number
    let literal: string | bigint | undefined
    if (c === '$') {
      // $1 and $name are parameters, $$ and $tag$ quote.
      WORD.lastIndex = at + 1
      const word = WORD.exec(text)![0]
      if (word === '' || word.includes('$') || text[at + 1 + word.length] === '$') return undefined
      end = at + 1 + word.length
    } else if (c === "'" || c === '"') {
      end = quoteEnd(text, at)
      // U&'..' has escapes.
      if (end < 0 || (c === "'" && /u&$/i.test(text.slice(Math.max(at - 2, 0), at)))) return undefined
      if (c === "'") literal = text.slice(at + 1, end - 1).replaceAll("''", "'")
    } else if (c >= '0' && c <= '9') {
      NUMBER.lastIndex = at
      const number = NUMBER.exec(text)![0]
      end = at + number.length
      if ((LONG.test(number) || SECONDS.test(number)) && text[at - 1] !== '.') literal = BigInt(number)
    } else {
      WORD.lastIndex = at
      end = at + WORD.exec(text)![0].length
      // E'..', X'..' and the like.
      if (text[end] === "'") return undefined
    }
    LITERAL_START.lastIndex = end
    if (literal === undefined) continue
    const number = literals.push(literal) - 1
    if (number >= MAX_LITERALS) return undefined
    const between = text.slice(copied, at)
    const seconds = end - at === SECONDS_DIGITS
    key += between + (typeof literal === 'string' ? `'${PLACE}'` : seconds ? PLACE + PLACE : PLACE)
    marked += between + (typeof literal === 'string' ? `'${MARK}${number}'` : String((seconds ? MARK_SECONDS : MARK_NUMBER) + BigInt(number)))
    copied = end
  }
  return { key: key + text.slice(copied), literals, marked: marked + text.slice(copied) }
}

function quoteEnd(text: string, at: number): number {
  const quote = text[at]
  for (let end = text.indexOf(quote, at + 1); end >= 0; end = text.indexOf(quote, end + 2)) if (text[end + 1] !== quote) return end + 1
  return -1
}

/** Where the constant of a mark stands in a tree: the keys that lead to it. */
export type MarkPath = readonly string[]

/** The paths of the marks, by their numbers; undefined unless there is one for each of `count`. */
export function marksOf(tree: unknown, count: number): MarkPath[] | undefined {
  const found: MarkPath[] = []
  let visited = 0
  const visit = (node: unknown, path: readonly string[]): void => {
    if (typeof node !== 'object' || node === null) return
    const number = markOf(node as Node)
    if (number !== undefined) {
      visited++
      found[number] = path
    } else for (const key in node) visit((node as Node)[key], [...path, key])
  }
  visit(tree, [])
  return visited === count && found.length === count && !found.includes(undefined as never) ? found : undefined
}

/** Puts literals in the places of marks; the tree is changed. */
export function fill(tree: unknown, marks: readonly MarkPath[], literals: readonly (string | bigint)[]): void {
  for (let i = 0; i < marks.length; i++) {
    let node = tree as Node
    for (const key of marks[i]) node = node[key]
    const literal = literals[i]
    node.value = typeof literal === 'string' ? literal : numberValue(literal)
  }
}

/** As JSON has it: as text where a number would lose digits. */
function numberValue(literal: bigint): number | string {
  return literal < 10n ** 15n ? Number(literal) : String(literal)
}

/** Which literal the value of a constant stands for. */
function markOf(value: Node): number | undefined {
  if (value.is_null !== false) return undefined
  if (value.type?.id === 'VARCHAR' && typeof value.value === 'string' && value.value.startsWith(MARK)) return Number(value.value.slice(MARK.length))
  if (value.type?.id === 'INTEGER' && typeof value.value === 'number') return literalNumber(value.value - Number(MARK_SECONDS))
  if (value.type?.id !== 'BIGINT' || typeof value.value !== 'string' || value.value.length !== 18) return undefined
  return literalNumber(Number(BigInt(value.value) - MARK_NUMBER))
}

const literalNumber = (number: number): number | undefined => (number >= 0 && number < MAX_LITERALS ? number : undefined)

/** Whether a tree with marks becomes the other one with the literals. Where things stand in the text may differ. */
export function isTreeOf(marked: unknown, { literals }: Shape, tree: unknown): boolean {
  const filled = structuredClone(marked)
  const marks = marksOf(filled, literals.length)
  if (marks === undefined) return false
  fill(filled, marks, literals)
  return isDeepStrictEqual(withoutPlaces(filled), withoutPlaces(structuredClone(tree)))
}

function withoutPlaces(tree: unknown): unknown {
  if (typeof tree !== 'object' || tree === null) return tree
  delete (tree as Node).query_location
  for (const key in tree) withoutPlaces((tree as Node)[key])
  return tree
}
