/** Names that a statement mentions, wherever they stand: what a scan must bring. */
import { constantNumber, type Node, walk } from './ast.ts'
import { foldName } from './names.ts'
import type { Mentioned } from './printer.ts'

/** What the statement mentions anywhere, lower case: the columns a scan must bring. More than needed is harmless. */
export function mentionedNames(tree: Node): Mentioned {
  const rows = new Set<string>()
  const worked = new Set<string>()
  let typed = false
  walk(tree, (node) => {
    if (node.class === 'COLUMN_REF') {
      if (node.column_names.length === 1) rows.add(foldName(String(node.column_names[0])))
    }
    if (node.class === 'STAR' && node.relation_name !== undefined) rows.add(foldName(String(node.relation_name)))
    const name = foldName(String(node.function_name))
    if (showsType(node, name)) typed = true
    if (TEXT_WORK.has(node.class) && !ENUM_SAFE.has(name)) {
      for (const child of [...((node.children ?? []) as Node[]), node.child, node.lhs, node.expr, node.default_expr]) {
        if (child?.class === 'COLUMN_REF') worked.add(foldName(String(child.column_names.at(-1))))
      }
    }
  })
  const columns = columnMentions(tree)
  return { columns, rows, worked: typed ? undefined : worked, expressions: [...columns.keys()].some((name) => !/^\w+$/.test(name)) }
}

/** Whether an ENUM could show wherever it came from: through other names, from a subquery or out of another expression. */
function showsType({ class: kind, type, default_expr: otherwise }: Node, name: string): boolean {
  if (kind === 'COLLATE' || type === 'ARRAY_SLICE' || type === 'RECURSIVE_CTE_NODE' || SHOWS_TYPE.has(name) || name.includes('json')) return true
  // Of lag and lead: a text that is none of the values.
  return kind === 'WINDOW' && otherwise !== undefined && constantNumber(otherwise) === undefined
}

/** Parts of column references and of USING lists, lower case, and how often each occurs. */
export function columnMentions(tree: Node): Map<string, number> {
  const counts = new Map<string, number>()
  const add = (name: string): void => void counts.set(foldName(name), (counts.get(foldName(name)) ?? 0) + 1)
  walk(tree, (node) => {
    if (node.class === 'COLUMN_REF') (node.column_names as string[]).forEach(add)
    if (node.type === 'JOIN') ((node.using_columns ?? []) as string[]).forEach(add)
  })
  return counts
}

const SHOWS_TYPE = new Set(['typeof', 'hash', 'array_pop_back', 'array_pop_front', '->>'])
const TEXT_WORK = new Set(['FUNCTION', 'WINDOW', 'CAST', 'COLLATE', 'LAMBDA'])
const ENUM_SAFE = new Set(['count', 'min', 'max', 'approx_count_distinct'])
