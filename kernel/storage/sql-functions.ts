/**
 * SQL functions of plugins: what a plugin declares in setup (`svc.sql.function`), and what the storage engine is handed before it opens. They run beside
 * the data, on columns, and see nothing but the values that a statement gives them.
 */
import { SvcError } from '../lib/errors/index.ts'

/** Types whose values all take the same number of bytes. Times are nanoseconds since the Unix epoch. */
export type SqlFixedType = 'BOOLEAN' | 'INTEGER' | 'BIGINT' | 'UBIGINT' | 'DOUBLE' | 'TIMESTAMP_NS'
/** `X[]` is a list. */
export type SqlType = SqlFixedType | 'VARCHAR' | 'BLOB' | `${SqlFixedType}[]`

/** A value that a statement writes as a constant. */
export type SqlConstant = boolean | number | bigint | string

/** One argument of a function, in the order of `SqlFunction.args`. */
export interface SqlArgument {
  /** Lower case letters, digits and "_". */
  name: string
  /** What the value is cast to. A function with an expression may leave it out: the value then comes as it is. */
  type?: SqlType
  /** Statements must write it as a constant (or bind it), within these bounds: of BOOLEAN, INTEGER, BIGINT, DOUBLE or VARCHAR. Constants come after the values. */
  constant?: true | { min?: number; max?: number; above?: number }
  /** Of a constant that statements may leave out. */
  default?: SqlConstant
}

/** A function as a plugin declares it (`PluginSql.function`). */
export interface SqlFunction {
  /** As statements call it: lower case letters, digits and "_". With a leading "_", only expressions of the same plugin may call it. */
  name: string
  /** One line for documentation. */
  summary: string
  /**
   * What it is called over: `scalar` a row; `aggregate` a group, with FILTER, and with OVER a frame; `window` a whole partition, whose rows are in the order
   * that OVER gives them, without a frame of the statement's.
   */
  kind: 'scalar' | 'aggregate' | 'window'
  args: readonly SqlArgument[]
  /** Of a function with a module: the type of its values. */
  returns?: SqlType
  /**
   * SQL text in terms of the arguments' names, in place of a module. It passes the same checks as what a user writes, functions of the same plugin may be
   * called, and it may hold no column, subquery or lambda. Of `window`, OVER clauses name the caller's window: `OVER whole` (its partition), `OVER ordered`
   * (with its order), `OVER (ordered ROWS ...)`. Of `aggregate`, its aggregates get the caller's FILTER and OVER.
   */
  expression?: string
  /**
   * In place of an expression: a module whose export of the function's name (else its default export) is a `SqlFunctionBody`, loaded where statements run:
   * in engine threads and engine processes. It must not keep state between calls that shows in results.
   */
  module?: URL
  /** The module's export makes the expression out of the constants: a `SqlExpressionBody`. */
  makesExpression?: true
  /** Of `aggregate` with a module: the argument by which the values of a group are sorted, ascending. */
  orderedBy?: string
  /** The same arguments may give other results: it is called again for each row. */
  volatile?: true
  /**
   * Of `scalar` with a module: time and memory of a call are at most linear in its columns, with a small factor. Only then may a statement that calls it run
   * on an engine thread; all others run in a process that can be ended.
   */
  bounded?: true
}

/** Values of one argument or result. The arrays of arguments are the engine's, and valid until the call returns. */
export interface SqlFunctionColumn {
  /**
   * BOOLEAN Uint8Array (0 or 1), INTEGER Int32Array, BIGINT and TIMESTAMP_NS (nanoseconds) BigInt64Array, UBIGINT BigUint64Array, DOUBLE Float64Array,
   * VARCHAR strings, BLOB Uint8Arrays; of lists the elements of all of them. A missing DOUBLE among the elements or in a partition is NaN; a NaN in a
   * result is NULL.
   */
  values: Float64Array | BigInt64Array | BigUint64Array | Int32Array | Uint8Array | readonly (string | Uint8Array | null)[]
  /** One byte a value, 1 = present; absent when all are. */
  validity?: Uint8Array
  /** Of lists: where the list of each row begins in `values`, and its length. `validity` is that of the elements; a row without a list has length 0 in a result, and is NULL if `rowValidity` says so. */
  lists?: { starts: Uint32Array; lengths: Uint32Array }
  rowValidity?: Uint8Array
}

/**
 * What a module exports for a function. Called with up to some thousands of rows (`scalar`), with groups as rows and their values as lists (`aggregate`), or
 * with all rows of one partition in order (`window`).
 * Where an argument of a scalar function, or of a row that an aggregate takes in, is NULL, the engine answers NULL, or leaves the row out.
 * @param columns the arguments that are no constants. @param constants the others, in order.
 * @returns a column of `rows` values, which the engine has copied before the next call; undefined = all NULL.
 * @throws SvcError with a text for the caller: the statement fails.
 */
export type SqlFunctionBody = (columns: readonly SqlFunctionColumn[], rows: number, constants: readonly SqlConstant[]) => SqlFunctionColumn | undefined

/** @returns the expression for these constants. */
export type SqlExpressionBody = (constants: readonly SqlConstant[]) => string

/** A function as engines get it. */
export interface DeclaredSqlFunction extends SqlFunction {
  /** Id of its plugin. */
  plugin: string
}

const NAME = /^_?[a-z][a-z0-9_]*$/
const TYPES: ReadonlySet<string> = new Set<SqlFixedType>(['BOOLEAN', 'INTEGER', 'BIGINT', 'UBIGINT', 'DOUBLE', 'TIMESTAMP_NS'])
const CONSTANT_TYPES: ReadonlySet<string> = new Set(['BOOLEAN', 'INTEGER', 'BIGINT', 'DOUBLE', 'VARCHAR'])
const isType = (type: string): boolean => type === 'VARCHAR' || type === 'BLOB' || TYPES.has(type.replace(/\[\]$/, ''))

/** All functions of a node, by name. */
export class SqlFunctions {
  private readonly byName = new Map<string, DeclaredSqlFunction>()

  /** @throws CONFIG_ERROR for a declaration that is wrong, or a name that is taken. */
  add(plugin: string, declared: SqlFunction): void {
    const refuse = (cause: string) => new SvcError('CONFIG_ERROR', `cannot add SQL function "${declared.name}" of plugin "${plugin}": ${cause}`)
    const other = this.byName.get(declared.name)
    if (other !== undefined) throw refuse(`plugin "${other.plugin}" has one of that name; select one of them`)
    const problem = problemOf(declared)
    if (problem !== undefined) throw refuse(problem)
    this.byName.set(declared.name, Object.freeze({ ...declared, plugin }))
  }

  all(): DeclaredSqlFunction[] {
    return [...this.byName.values()]
  }
}

function problemOf({ name, kind, args, returns, expression, module, makesExpression, orderedBy, bounded }: SqlFunction): string | undefined {
  if (!NAME.test(name)) return 'a name is lower case letters, digits and "_", starting with a letter'
  const native = module !== undefined && makesExpression !== true
  if ((expression === undefined) === (module === undefined)) return 'it needs either an expression or a module'
  if (native && (returns === undefined || !isType(returns))) return `its type of results "${returns}" is none of the known types`
  for (const [i, arg] of args.entries()) {
    const alone = NAME.test(arg.name) && args.filter((each) => each.name === arg.name).length === 1
    const problem = alone ? problemOfArg(arg, args[i - 1], native, kind) : 'has no name of its own; use lower case letters, digits and "_"'
    if (problem !== undefined) return `its argument "${arg.name}" ${problem}`
  }
  if (native && args.every(({ constant }) => constant !== undefined)) return 'it needs an argument that is no constant'
  if (orderedBy !== undefined && !(native && kind === 'aggregate' && args.some((arg) => arg.name === orderedBy && arg.constant === undefined)))
    return `it cannot be ordered by "${orderedBy}"`
  if (bounded === true && !(native && kind === 'scalar')) return 'only a scalar function with a module can be called bounded; of an expression its parts decide'
  return undefined
}

type Arg = SqlFunction['args'][number]

/** @param before the argument in front of it. */
function problemOfArg({ type, constant, default: given }: Arg, before: Arg | undefined, native: boolean, kind: SqlFunction['kind']): string | undefined {
  if (type === undefined ? native || constant !== undefined : !isType(type)) return 'has a type that is not known'
  if (constant !== undefined && !CONSTANT_TYPES.has(String(type))) return `cannot be a constant of type ${type}`
  if (constant === undefined && given !== undefined) return 'is no constant and cannot have a default'
  if (before?.constant !== undefined && constant === undefined) return 'comes after a constant'
  if (before?.default !== undefined && given === undefined) return 'needs a default, as the one before has one'
  if (native && kind !== 'scalar' && constant === undefined && !TYPES.has(String(type))) return `is gathered into a list, which ${type} cannot be`
  return undefined
}
