/** References to columns: what the parts of a dotted name mean, by our own rules, and their generated names. docs/decisions/029-*.md lists the rules. */
import { writtenOut } from './aliases.ts'
import { ident, literal, members, type Node, refuse } from './ast.ts'
import { catalogName, isSchema } from './catalog.ts'
import { foldName } from './names.ts'
import type { Printer } from './printer.ts'
import { isKnownColumn, type Scope, type Source, type SourceColumn } from './scope.ts'
import { printSessionWord } from './session-functions.ts'

/** Functions that are written without parentheses, where there is no column of that name. */
const VALUE_FUNCTIONS = new Set(
  'current_catalog current_date current_role current_schema current_time current_timestamp current_user localtime localtimestamp session_user user'.split(' '),
)

export function columnRef(p: Printer, node: Node, scope: Scope): string {
  members(node, ['class', 'type', 'alias', 'column_names'])
  const names = withoutSchema(p, node.column_names as string[], scope)
  if (p.plain) return names.map((name) => p.ident(name)).join('.')
  const [first] = names
  if (names.length === 1) {
    const text = writtenOut(p, first, scope)
    if (text !== undefined) return text
    if (VALUE_FUNCTIONS.has(foldName(first)) && !isKnownColumn(first, scope)) return printSessionWord(p, first) ?? foldName(first)
    const row = rowOf(first, scope)
    return row === undefined ? p.ident(first) : wholeRow(p, row)
  }
  const qualified = isQualified(names, scope)
  const fields = names.slice(qualified ? 2 : 1)
  const column = qualified ? `${p.ident(first)}.${p.ident(names[1])}` : p.ident(first)
  // The key of a value, not a name: DuckDB reads it as a constant.
  return fields.reduce((text, field) => `(${text}).${ident(field)}`, column)
}

/** Whether a reference means a field of a struct: its answer is called by the field. */
export function isField(p: Printer, node: Node, scope: Scope): boolean {
  const names = withoutSchema(p, node.column_names as string[], scope)
  return names.length > 2 || (names.length === 2 && !isQualified(names, scope))
}

/** A relation that is called like the schema, as an alias may be, goes before it. */
function withoutSchema(p: Printer, names: string[], scope: Scope): string[] {
  if (names.length > 2 && isSchema(names[0]) && !isRelation(names[0], scope)) return names.slice(1)
  return names.length > 3 && foldName(names[0]) === foldName(catalogName(p.namespace)) && isSchema(names[1]) ? names.slice(2) : names
}

function isRelation(name: string, scope: Scope | undefined): boolean {
  return scope !== undefined && (scope.sources.some(({ alias }) => alias === foldName(name)) || isRelation(name, scope.parent))
}

/** Whether the first of several parts names a relation: from the inside out, a relation that may have the column goes before a column that may have fields. */
function isQualified([first, second]: readonly string[], scope: Scope): boolean {
  const [alias, column] = [foldName(first), foldName(second)]
  let seen = false
  for (let at: Scope | undefined = scope; at !== undefined; at = at.parent) {
    const own = at.sources.filter((source) => source.alias === alias)
    if (own.some((source) => !source.complete || source.columns.has(column))) return true
    if (own.length > 0) seen = true
    if (at.parameters.some((names) => names.has(alias)) || at.sources.some((source) => mayHaveFields(source.columns.get(alias)))) return false
  }
  return seen
}

const mayHaveFields = (column: SourceColumn | undefined): boolean => column !== undefined && (column.kind === undefined || column.kind === 'other')

/** The relation whose whole row a single name means: one that no column has, and no alias of the select list further in. */
function rowOf(name: string, scope: Scope): Source | undefined {
  const folded = foldName(name)
  for (let at: Scope | undefined = scope; at !== undefined; at = at.parent) {
    if (at.hidden.some((hidden) => hidden.has(folded)) || at.sources.some((source) => source.columns.has(folded))) return undefined
    const own = at.sources.find((source) => source.alias === folded)
    if (at.sources.some((source) => !source.complete)) return undefined
    if (own !== undefined || at.aliases.has(folded)) return own
  }
  return undefined
}

/** A row as a struct, whose keys are public: text of the answer. */
function wholeRow(p: Printer, source: Source): string {
  p.rewrites++
  const columns = [...source.columns.values()].map(({ public: name }) => `${ident(name)} := ${p.ident(source.alias)}.${p.ident(name)}`)
  return `struct_pack(${columns.join(', ')})`
}

/** Names of the columns in reach, in the order of FROM; undefined when not all are known. */
export function columnNames(scope: Scope, relation: string | undefined): string[] | undefined {
  const sources = scope.sources.filter((source) => relation === undefined || source.alias === foldName(relation))
  if (sources.length === 0 || sources.some((source) => !source.complete)) return undefined
  return [...new Set(sources.flatMap((source) => [...source.columns.values()].map((column) => column.public)))]
}

/** COLUMNS(...) of some of the columns in reach. */
export function columnsIn(p: Printer, names: readonly string[]): string {
  if (names.length === 0) throw refuse('cannot run this query: no column matches what COLUMNS asks for')
  return `COLUMNS(${literal(`(?i)^(${names.map((name) => p.ident(name)).join('|')})$`)})`
}
