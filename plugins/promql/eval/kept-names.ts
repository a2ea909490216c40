/** Whether the series of an expression keep the names of their metrics, as far as the expression itself says. */
import type { AggregateExpr, BinaryExpr, CallExpr, Expr } from '../ast.ts'
import { METADATA } from '../labels.ts'
import { isComparison } from './operators.ts'
import { unwrap } from './unwrap.ts'

/** `none`: they have none to lose. Undefined: some do and some do not, or it is not known. */
type Names = 'kept' | 'dropped' | 'none' | undefined

const WITHOUT_NAMES: ReadonlySet<string> = new Set(['vector', 'absent', 'absent_over_time'])
const KEEPING: ReadonlySet<string> = new Set(
  'first_over_time last_over_time sort sort_desc sort_by_label sort_by_label_desc label_replace label_join'.split(' '),
)
const SELECTING: ReadonlySet<string> = new Set(['topk', 'bottomk', 'limitk', 'limit_ratio'])

/** Whether series that both sides of an `or` have lose their names whichever side they are from. */
export function sameNames({ lhs, rhs }: BinaryExpr): boolean {
  return agree(namesOf(lhs), namesOf(rhs))
}

function agree(left: Names, right: Names): boolean {
  return left === 'none' || right === 'none' || (left !== undefined && left === right)
}

function namesOf(expr: Expr): Names {
  switch (expr.kind) {
    case 'number':
    case 'string':
      return 'none'
    case 'vector':
    case 'matrix':
      return 'kept'
    case 'paren':
    case 'subquery':
      return namesOf(expr.expr)
    case 'unary':
      return expr.op === '+' ? namesOf(expr.expr) : 'dropped'
    case 'aggregate':
      return ofAggregate(expr)
    case 'binary':
      return ofBinary(expr)
    case 'call':
      return ofCall(expr)
  }
}

function ofAggregate({ op, expr, param, grouping, without }: AggregateExpr): Names {
  if (SELECTING.has(op)) return namesOf(expr)
  const named = (!without && grouping.some((name) => METADATA.has(name))) || (param !== undefined && isMetadata(param))
  return named ? undefined : 'none'
}

function ofBinary(expr: BinaryExpr): Names {
  const { op, lhs, rhs, matching, returnBool } = expr
  if (op === 'and' || op === 'unless') return namesOf(lhs)
  if (op === 'or') {
    // Each side is looked at once: of an "or" within others, twice would double with each of them.
    const [left, right] = [namesOf(lhs), namesOf(rhs)]
    if (!agree(left, right)) return undefined
    return left === 'none' ? right : left
  }
  if (matching?.include.some((name) => METADATA.has(name)) === true) return undefined
  if (!isComparison(op) || returnBool) return 'dropped'
  if (matching !== undefined) return undefined
  // With a scalar, which has none.
  const left = namesOf(lhs)
  return left === 'none' ? namesOf(rhs) : left
}

function ofCall({ name, args, type }: CallExpr): Names {
  if (type === 'scalar' || WITHOUT_NAMES.has(name)) return 'none'
  if (!KEEPING.has(name)) return 'dropped'
  return args.some(isMetadata) ? undefined : namesOf(args[0])
}

function isMetadata(expr: Expr): boolean {
  const plain = unwrap(expr)
  return plain.kind === 'string' && METADATA.has(plain.value)
}
