/**
 * The syntax tree of DuckDB's own parser, as `json_serialize_sql` gives it (defaults, empty members and nulls left out).
 * Nothing may be believed about its shape: every printer names the members it knows and refuses a node that has others, so that
 * syntax of a newer DuckDB is refused, not passed on.
 */
import { RecentMap } from 'svcdb/lib/cache'
import { SvcError } from 'svcdb/lib/errors'
import { placed } from './errors.ts'
import type { SqlHost } from './host.ts'
import { lexable } from './lexable.ts'
import { ALONE } from './place.ts'
import { fill, isTreeOf, type MarkPath, marksOf, type Shape, shapeOf } from './shapes.ts'

// The tree is data from outside: members are looked at one by one.
// biome-ignore lint/suspicious/noExplicitAny: see above
export type Node = Record<string | symbol, any>

/** Trees of the last statements' shapes, as text: so many at most, and so many bytes. */
const KEPT_SHAPES = 512
const KEPT_LENGTH = 16_384
const KEPT_BYTES = 16 << 20
const trees = new RecentMap<string, KeptTree>(KEPT_BYTES, sizeOf)
const SHAPE = 'shape '
const TEXT = 'text '

interface KeptTree {
  /** Of a `Parsed`; undefined for a shape that is not parsed by itself yet, or never: its statements are kept one by one. */
  json: string | undefined
  /** Where literals go. */
  marks: readonly MarkPath[]
  /** Of a shape that one statement had by now: the tree as DuckDB gave it, which is to become of the shape's. */
  first?: { json: string; shape: Shape }
}

const UNFIT: KeptTree = { json: undefined, marks: [] }

/** Integers of 64 and 128 bits lie as plain JSON numbers under these keys; JSON.parse would round them. Inside a string the quotes are escaped, so this cannot match there. */
const LONG_INTEGER = /"(value|upper|lower)":(-?\d{16,})(?=[,}\]])/g
/** Doubles that no digits reach, such as 1e400, which are no JSON either. */
const INFINITE = /"value":(-?Infinity)(?=[,}])/g

export function refuse(message: string): SvcError {
  return new SvcError('SQL_ERROR', message)
}

interface Parsed {
  tree: Node
  /** As the parser lists them: `key` the name, `value` the number. */
  parameters: readonly Node[]
}

/** Reads a text with DuckDB's parser. */
export type Parse = (text: string) => Promise<Parsed>

/** The one statement of `text`. @throws SQL_ERROR when it does not parse, is no query, or is not alone. */
export async function parse(host: Pick<SqlHost, 'connection' | 'place'>, text: string): Promise<Parsed> {
  return parsedBefore(text) ?? (await parsedNow(host, text))
}

/** As `parse`, without DuckDB; undefined when no statement of that shape was parsed lately. */
export function parsedBefore(text: string): Parsed | undefined {
  const shape = shapeOf(text)
  const kept = shape === undefined ? undefined : trees.get(SHAPE + shape.key)
  if (shape !== undefined && kept?.json !== undefined) return filled(kept.json, kept.marks, shape)
  const own = trees.get(TEXT + text)
  return own?.json === undefined ? undefined : (JSON.parse(own.json) as Parsed)
}

/** A shape is parsed by itself when a second statement has it: the first one is answered sooner, and many are alone. */
async function parsedNow(host: Pick<SqlHost, 'connection' | 'place'>, text: string): Promise<Parsed> {
  const found = shapeOf(text)
  const shape = found === undefined || found.literals.length === 0 ? undefined : found
  const kept = shape === undefined ? undefined : trees.get(SHAPE + shape.key)
  if (shape !== undefined && kept?.first !== undefined) {
    const template = await templateOf(host, kept.first)
    keep(SHAPE + shape.key, template)
    if (template.json !== undefined) return filled(template.json, template.marks, shape)
  }
  const json = await serialize(host, text)
  const result = parsed(read(json), text)
  if (shape !== undefined && kept === undefined) keep(SHAPE + shape.key, { ...UNFIT, first: { json, shape } })
  keep(TEXT + text, { json: JSON.stringify(result), marks: [] })
  return result
}

async function templateOf(host: Pick<SqlHost, 'connection' | 'place'>, { json, shape }: NonNullable<KeptTree['first']>): Promise<KeptTree> {
  const marked = await serialize(host, shape.marked)
  if (!isTreeOf(read(marked), shape, read(json))) return UNFIT
  const template = parsed(read(marked))
  const marks = marksOf(template, shape.literals.length)
  return marks === undefined ? UNFIT : { json: JSON.stringify(template), marks }
}

function filled(template: string, marks: readonly MarkPath[], { literals }: Shape): Parsed {
  const result = JSON.parse(template) as Parsed
  fill(result, marks, literals)
  return result
}

/** Not skip_empty: it would lose empty strings and the empty set of GROUPING SETS. */
function read(json: string): Node {
  return JSON.parse(json.replace(LONG_INTEGER, '"$1":"$2"').replace(INFINITE, '"value":"$1"')) as Node
}

/** What `json_serialize_sql` says of other statements. */
const NO_QUERY = 'Only SELECT statements'

const REMOVED_BY = 'a measurement is dropped by DELETE /api/v1/measurements/<name>, points by POST /api/v1/delete'

/** @param text of the statement, for messages: where it is known. */
function parsed(tree: Node, text = ''): Parsed {
  if (tree.error === true) {
    const unknown = tree.error_type === 'not implemented'
    if (unknown && String(tree.error_message).startsWith(NO_QUERY)) {
      const instead = /^[\s(]*(?:DROP|DELETE|TRUNCATE)\b/i.test(text) ? REMOVED_BY : 'data is written by the write API, which makes measurements too'
      throw refuse(`cannot run this statement: only queries are allowed (SELECT, WITH, VALUES, SHOW, DESCRIBE, EXPLAIN); ${instead}`)
    }
    throw refuse(`cannot parse the query: ${unknown ? 'not supported: ' : ''}${reasonOf(tree, text)}`)
  }
  const statements = tree.statements as Node[]
  if (statements.length !== 1) throw refuse(`cannot run ${statements.length} statements: a request holds exactly one`)
  members(statements[0], ['node', 'named_param_map'])
  return { tree: withoutEmpty(statements[0].node) as Node, parameters: (statements[0].named_param_map ?? []) as Node[] }
}

function reasonOf({ error_message: message, position }: Node, text: string): string {
  // What was read in place of comments is shorter.
  return position === undefined || lexable(text) !== text ? String(message) : placed(String(message), text, Number(position))
}

async function serialize({ connection, place = ALONE }: Pick<SqlHost, 'connection' | 'place'>, text: string): Promise<string> {
  const statement = `SELECT json_serialize_sql(${literal(lexable(text))}, skip_null := true, skip_default := true)`
  const result = await place.planning(() => connection.run(statement))
  return String((await result.fetchChunk())?.getColumnVector(0).getItem(0))
}

function keep(key: string, tree: KeptTree): void {
  if (key.length <= KEPT_LENGTH) trees.set(key, tree)
}

function sizeOf({ json = '', marks, first }: KeptTree, key: string): number {
  return Math.max(KEPT_BYTES / KEPT_SHAPES, (key.length + json.length + (first?.json.length ?? 0) + marks.length * 64) * 2)
}

/** Takes out members that are empty, except where empty means something: the value of a constant, a grouping set. */
function withoutEmpty(node: unknown): unknown {
  if (Array.isArray(node)) for (const child of node) withoutEmpty(child)
  else if (typeof node === 'object' && node !== null) {
    const object = node as Node
    for (const key in object) {
      const value = object[key]
      if (key === 'group_sets' ? value.length === 0 : value === '' ? key !== 'value' : Array.isArray(value) && value.length === 0) delete object[key]
      else if (typeof value === 'object' && key !== 'group_sets') withoutEmpty(value)
    }
    if (object.function_name === 'date_bin') asTimeBucket(object)
  }
  return node
}

const text = (value: string): Node => ({ class: 'CONSTANT', type: 'VALUE_CONSTANT', value: { type: { id: 'VARCHAR' }, is_null: false, value } })

/** `date_bin(width, time [, origin])` of PostgreSQL and DataFusion, which Grafana's macros write: `time_bucket` in UTC. */
function asTimeBucket(call: Node): void {
  const { class: kind, children } = call
  if (kind !== 'FUNCTION' || (children?.length !== 2 && children?.length !== 3)) return
  call.function_name = 'time_bucket'
  call.children = [children[0], children[1], text(''), children[2] ?? text('1970-01-01')]
}

/** @throws SQL_ERROR when the node has a member that is not listed: it means something we do not print. */
export function members(node: Node, known: readonly string[]): void {
  for (const key in node) {
    if (key === 'query_location' || known.includes(key)) continue
    throw refuse(`cannot run this query: "${key.replaceAll('_', ' ')}" is not supported here`)
  }
}

/** Calls `visit` on every node of the tree. */
export function walk(node: unknown, visit: (node: Node) => void): void {
  if (Array.isArray(node)) {
    for (const child of node) walk(child, visit)
  } else if (typeof node === 'object' && node !== null) {
    visit(node as Node)
    for (const key in node) walk((node as Node)[key], visit)
  }
}

/** An expression without its name and its place in the text. */
export function bare(node: Node): string {
  return JSON.stringify(node, (name, value) => {
    if (name === 'query_location' || name === 'alias') return undefined
    // Of a parameter.
    return typeof value === 'bigint' ? `${value}n` : value
  })
}

export function ident(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

export function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`
}

/** The text of a constant string, else undefined */
export function constantText(node: Node | undefined): string | undefined {
  return node?.class === 'CONSTANT' && node.value?.is_null === false && node.value.type?.id === 'VARCHAR' ? String(node.value.value ?? '') : undefined
}

const INTEGERS = new Set(['TINYINT', 'SMALLINT', 'INTEGER', 'BIGINT', 'HUGEINT', 'UTINYINT', 'USMALLINT', 'UINTEGER', 'UBIGINT', 'UHUGEINT'])

export function constantInteger(node: Node | undefined): bigint | undefined {
  if (node?.class !== 'CONSTANT' || node.value?.is_null !== false || !INTEGERS.has(node.value.type?.id)) return undefined
  const value = node.value.value
  return typeof value === 'object' ? (BigInt(value.upper ?? 0) << 64n) + BigInt(value.lower ?? 0) : BigInt(value)
}

/** Any constant number as a JavaScript number. */
export function constantNumber(node: Node | undefined): number | undefined {
  const integer = constantInteger(node)
  if (integer !== undefined) return Number(integer)
  if (node?.class !== 'CONSTANT' || node.value?.is_null !== false) return undefined
  if (node.value.type?.id === 'DOUBLE') return Number(node.value.value)
  if (node.value.type?.id === 'DECIMAL') return Number(decimalText(node.value))
  return undefined
}

/** Digits of a DECIMAL constant. */
export function decimalText(value: Node): string {
  const raw = typeof value.value === 'object' ? (BigInt(value.value.upper ?? 0) << 64n) + BigInt(value.value.lower ?? 0) : BigInt(value.value)
  const scale = Number(value.type.type_info?.scale ?? 0)
  const negative = raw < 0n
  const digits = (negative ? -raw : raw).toString().padStart(scale + 1, '0')
  return `${negative ? '-' : ''}${digits.slice(0, digits.length - scale)}${scale > 0 ? `.${digits.slice(digits.length - scale)}` : ''}`
}
