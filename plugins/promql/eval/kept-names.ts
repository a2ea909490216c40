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

/** Of the expressions of one tree that were looked at. */
export type KnownNames = Map<Expr, Names>

/** Whether series that both sides of an `or` have lose their names whichever side they are from. @param known is added to: without it, work would grow with depth, too. */
export function sameNames({ lhs, rhs }: BinaryExpr, known: KnownNames): boolean {
  return agree(namesOf(lhs, known), namesOf(rhs, known))
}

function agree(left: Names, right: Names): boolean {
  return left === 'none' || right === 'none' || (left !== undefined && left === right)
}

function namesOf(expr: Expr, known: KnownNames): Names {
  if (known.has(expr)) return known.get(expr)
  const names = decide(expr, known)
  known.set(expr, names)
  return names
}

function decide(expr: Expr, known: KnownNames): Names {
  switch (expr.kind) {
    case 'number':
    case 'string':
      return 'none'
    case 'vector':
    case 'matrix':
      return 'kept'
    case 'paren':
    case 'subquery':
      return namesOf(expr.expr, known)
    case 'unary':
      return expr.op === '+' ? namesOf(expr.expr, known) : 'dropped'
    case 'aggregate':
      return ofAggregate(expr, known)
    case 'binary':
      return ofBinary(expr, known)
    case 'call':
      return ofCall(expr, known)
  }
}

function ofAggregate({ op, expr, param, grouping, without }: AggregateExpr, known: KnownNames): Names {
  if (SELECTING.has(op)) return namesOf(expr, known)
  const named = (!without && grouping.some((name) => METADATA.has(name))) || (param !== undefined && isMetadata(param))
  return named ? undefined : 'none'
}

function ofBinary(expr: BinaryExpr, known: KnownNames): Names {
  const { op, lhs, rhs, matching, returnBool } = expr
  if (op === 'and' || op === 'unless') return namesOf(lhs, known)
  if (op === 'or') {
    const [left, right] = [namesOf(lhs, known), namesOf(rhs, known)]
    if (!agree(left, right)) return undefined
    return left === 'none' ? right : left
  }
  if (matching?.include.some((name) => METADATA.has(name)) === true) return undefined
  if (!isComparison(op) || returnBool) return 'dropped'
  if (matching !== undefined) return undefined
  // With a scalar, which has none.
  const left = namesOf(lhs, known)
  return left === 'none' ? namesOf(rhs, known) : left
}

function ofCall({ name, args, type }: CallExpr, known: KnownNames): Names {
  if (type === 'scalar' || WITHOUT_NAMES.has(name)) return 'none'
  if (!KEEPING.has(name)) return 'dropped'
  return args.some(isMetadata) ? undefined : namesOf(args[0], known)
}

function isMetadata(expr: Expr): boolean {
  const plain = unwrap(expr)
  return plain.kind === 'string' && METADATA.has(plain.value)
}
