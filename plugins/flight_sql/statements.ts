/** Prepared statements, by handle. A handle works for whoever made it, in the namespace it was made for. */
import type { CallContext, SqlParameter } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { BoundedMap } from './bounded-map.ts'

interface PreparedStatement {
  query: string
  /** Values bound to its parameters last. */
  parameters: readonly SqlParameter[] | undefined
  /** It writes: `query` is a measurement's name. */
  update: boolean
  dictionaries: boolean
  principal: string
  namespace: string
  /** Whose share of the room it takes: a namespace's, where they are kept apart, else the caller's. */
  owner: string
}

/** Whose share something takes of what all callers have together. No namespace has a colon. */
export function ownerOf({ dataNamespace, method, principal }: CallContext): string {
  return dataNamespace || `${method}:${principal}`
}

interface StatementOptions {
  maxStatements: number
  maxBytes: number
  lifetimeMs: number
}

const ENTRY_BYTES = 512

export class Statements {
  private readonly statements: BoundedMap<PreparedStatement>

  constructor({ maxStatements, maxBytes, lifetimeMs }: StatementOptions, monotonic: () => number) {
    this.statements = new BoundedMap({ maxEntries: maxStatements, maxWeight: maxBytes, lifetimeMs }, monotonic)
  }

  get size(): number {
    return this.statements.size
  }

  create(statement: Omit<PreparedStatement, 'principal' | 'namespace' | 'owner' | 'parameters'>, context: CallContext): string {
    const { principal, namespace } = context
    const owner = ownerOf(context)
    const entry: PreparedStatement = { ...statement, parameters: undefined, principal, namespace, owner }
    return this.statements.add(entry, weightOf(entry), owner) ?? tooLarge()
  }

  /** @throws NOT_FOUND for a handle that is not, or no longer, known. */
  get(handle: string, { principal, namespace }: CallContext): PreparedStatement {
    const statement = this.statements.get(handle)
    if (statement === undefined || statement.principal !== principal || statement.namespace !== namespace)
      throw new SvcError(
        'NOT_FOUND',
        `cannot find prepared statement "${handle.slice(0, 64)}": it was closed, or not used for so long that it has ended; prepare it again`,
      )
    return statement
  }

  bind(handle: string, parameters: readonly SqlParameter[], context: CallContext): void {
    const entry = { ...this.get(handle, context), parameters }
    if (!this.statements.put(handle, entry, weightOf(entry), entry.owner)) tooLarge()
  }

  /** Forgets what was prepared for a namespace that is kept apart. */
  forget(namespace: string): void {
    this.statements.forget(namespace)
  }

  /** Closing one that is gone is no fault: clients close what has ended meanwhile. */
  close(handle: string, context: CallContext): void {
    const statement = this.statements.get(handle)
    if (statement?.principal === context.principal && statement.namespace === context.namespace) this.statements.delete(handle)
  }
}

function tooLarge(): never {
  throw new SvcError(
    'PAYLOAD_TOO_LARGE',
    'cannot keep the prepared statement: it is larger than flight_sql.max_prepared_bytes, or than what others leave of it; send fewer values at once',
  )
}

function weightOf({ query, parameters }: PreparedStatement): number {
  let bytes = ENTRY_BYTES + query.length * 2
  for (const value of parameters ?? []) bytes += typeof value === 'string' ? value.length * 2 : value instanceof Uint8Array ? value.length : 16
  return bytes
}
