/** `*`, `m.*`, COLUMNS(...): lists of columns by pattern are made here, because DuckDB does not see the names that a pattern is about. */
import { constantText, literal, members, type Node, refuse, walk } from './ast.ts'
import { columnNames, columnsIn } from './columns.ts'
import { lambdaText } from './lambda.ts'
import { foldName } from './names.ts'
import type { Printer } from './printer.ts'
import type { Output, Scope } from './scope.ts'

const STAR = ['class', 'type', 'alias', 'relation_name', 'exclude_list', 'qualified_exclude_list', 'replace_list', 'rename_list', 'columns', 'expr', 'unpacked']

export function star(p: Printer, node: Node, scope: Scope): string {
  members(node, STAR)
  if (p.plain) return plainStar(p, node, scope)
  if (node.columns === true && typeof node.alias === 'string' && node.alias.includes('\\'))
    throw refuse('cannot run this query: COLUMNS cannot be renamed by a pattern; name the columns one by one')
  if (node.columns === true && node.expr !== undefined) return `${node.unpacked === true ? '*' : ''}${columnsIn(p, wanted(p, node, scope))}`
  const exclude = [
    ...((node.exclude_list ?? []) as string[]).map((name) => p.ident(name)),
    ...((node.qualified_exclude_list ?? []) as Node[]).map((each) => qualified(p, each)),
  ]
  const replace = ((node.replace_list ?? []) as Node[]).map((each) => `${p.expr(each.value, scope)} AS ${p.ident(each.key)}`)
  const rename = ((node.rename_list ?? []) as Node[]).map((each) => {
    members(each.key, ['table', 'column'])
    return `${qualified(p, each.key)} AS ${p.ident(each.value)}`
  })
  const parts = [
    `${node.relation_name === undefined ? '' : `${p.ident(node.relation_name)}.`}*`,
    exclude.length > 0 ? `EXCLUDE (${exclude.join(', ')})` : '',
    replace.length > 0 ? `REPLACE (${replace.join(', ')})` : '',
    rename.length > 0 ? `RENAME (${rename.join(', ')})` : '',
  ]
  const text = parts.filter((part) => part !== '').join(' ')
  return node.columns === true ? `${node.unpacked === true ? '*' : ''}COLUMNS(${text})` : text
}

const qualified = (p: Printer, { table, column }: Node): string =>
  [table, column]
    .filter((part) => part !== undefined)
    .map((part) => p.ident(part))
    .join('.')

/** For the name of an expression. */
function plainStar(p: Printer, node: Node, scope: Scope): string {
  const text = `${node.relation_name === undefined ? '' : `${p.ident(node.relation_name)}.`}*`
  if (node.columns !== true) return text
  return `COLUMNS(${node.expr === undefined ? text : p.expr(node.expr, scope)})`
}

/** Operators of `* LIKE 'pattern'`, as functions of a name and the pattern. */
const PATTERNS: Record<string, string> = {
  '~~': '({n} LIKE {p})',
  '!~~': '({n} NOT LIKE {p})',
  '~~*': '({n} ILIKE {p})',
  '!~~*': '({n} NOT ILIKE {p})',
  '~~~': '({n} GLOB {p})',
  regexp_full_match: 'regexp_full_match({n}, {p})',
}

/** `* LIKE 'pattern'` and its kin; undefined for anything else. */
export function starPattern(p: Printer, node: Node, scope: Scope): string | undefined {
  const [first, pattern] = (node.children ?? []) as Node[]
  if (node.class !== 'FUNCTION' || first?.class !== 'STAR' || first.columns === true) return undefined
  const test = PATTERNS[String(node.function_name)]
  const text = constantText(pattern)
  if (test === undefined || text === undefined || Object.keys(first).some((key) => key.endsWith('_list')))
    throw refuse('cannot run this query: a star stands in the place of a value; write COLUMNS(*), or name the columns one by one')
  if (p.plain) return '*'
  const names = reach(p, scope, first.relation_name)
  return columnsIn(p, p.matching(names, `lambda n: ${test.replace('{n}', 'n').replace('{p}', literal(text))}`))
}

function reach(p: Printer, scope: Scope, relation: string | undefined): string[] {
  const names = columnNames(scope, relation)
  if (names !== undefined) return names
  if (scope.sources.length === 0) throw refuse('cannot run this query: COLUMNS needs a FROM clause')
  return p.names.all()
}

/** What a lambda of COLUMNS may compute: nothing that could take long, because it is computed before the statement runs. */
const LAMBDA_FUNCTIONS = new Set([
  ...Object.keys(PATTERNS),
  'regexp_matches',
  'contains',
  'starts_with',
  'ends_with',
  'prefix',
  'suffix',
  'lower',
  'upper',
  'length',
])
const LAMBDA_CLASSES = new Set(['FUNCTION', 'COLUMN_REF', 'CONSTANT', 'COMPARISON', 'CONJUNCTION', 'OPERATOR', 'BETWEEN'])

/** The columns that COLUMNS('pattern'), COLUMNS(['a', 'b']) or COLUMNS(lambda c: ...) asks for. */
function wanted(p: Printer, { expr, relation_name }: Node, scope: Scope): readonly string[] {
  const names = reach(p, scope, relation_name)
  const pattern = constantText(expr)
  if (pattern !== undefined) return p.matching(names, `lambda n: regexp_matches(n, ${literal(pattern)})`)
  const children = (expr.children ?? []) as Node[]
  if (expr.class === 'FUNCTION' && expr.function_name === 'list_value') {
    const listed = children.map((child) => constantText(child))
    const missing = listed.find((name) => name === undefined || !names.some((known) => foldName(known) === foldName(name)))
    if (missing === undefined && !listed.includes(undefined)) return listed as string[]
    throw refuse(`cannot run this query: COLUMNS asks for "${missing ?? 'a name that is no constant'}", and there is no such column`)
  }
  const [first, lambda] = children
  if (expr.class === 'FUNCTION' && expr.function_name === 'list_filter' && first?.class === 'STAR' && lambda?.class === 'LAMBDA') {
    walk(lambda.expr, (node) => {
      const ok =
        node.class === undefined ||
        (LAMBDA_CLASSES.has(node.class) && (node.class !== 'FUNCTION' || LAMBDA_FUNCTIONS.has(foldName(String(node.function_name)))))
      if (!ok) throw refuse('cannot run this query: the lambda of COLUMNS may only compare the name, by LIKE and the like; name the columns one by one')
    })
    return p.matching(reach(p, scope, first.relation_name), lambdaText(p, lambda, scope))
  }
  throw refuse("cannot run this query: COLUMNS takes *, a pattern such as 'usage.*', a list of names or a lambda")
}

/** What a star brings; undefined when that is not known here. */
export function starOutputs(item: Node, scope: Scope): Output[] | undefined {
  // Of more than two relations it is not clear here which ones USING has merged.
  if (item.columns === true || scope.natural || (scope.using.size > 0 && scope.sources.length > 2)) return undefined
  if (item.qualified_exclude_list !== undefined || item.rename_list !== undefined || item.replace_list !== undefined) return undefined
  const relation = typeof item.relation_name === 'string' ? foldName(item.relation_name) : undefined
  const sources = scope.sources.filter((source) => relation === undefined || source.alias === relation)
  if (sources.length === 0 || sources.some((source) => !source.complete)) return undefined
  const excluded = new Set(((item.exclude_list ?? []) as string[]).map(foldName))
  return sources.flatMap((source, i) =>
    [...source.columns]
      .filter(([folded]) => !excluded.has(folded) && !(i > 0 && scope.using.has(folded)))
      .map(([folded, column]) => {
        const same = !scope.using.has(folded) || scope.sources.every(({ columns }) => columns.get(folded)?.kind === column.kind)
        return { name: column.public, kind: same ? column.kind : undefined }
      }),
  )
}
