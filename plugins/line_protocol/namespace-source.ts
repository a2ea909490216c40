/** `database = "namespace"`: the database's name selects the namespace as the header X-Namespace does, before anything looks at the credentials. */
import { type Credentials, namespaceProblem, type Source } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { agreed, databaseName, shown } from './database-name.ts'

/** @param paths those that the parameters count for. */
export function namespaceSource(paths: ReadonlySet<string>): Source {
  return (given: Credentials): Credentials => {
    if (given.protocol !== 'http' || !paths.has(given.path)) return given
    const { database } = databaseName((name) => given.query(name) || undefined)
    if (database === undefined) return given
    const header = given.header('x-namespace')?.trim() || undefined
    const namespace = agreed('database', database, 'header X-Namespace', header)
    return { ...given, header: (name) => (name === 'x-namespace' ? namespace : given.header(name)) }
  }
}

/**
 * What the source has not seen must not pass for it: a path spelled otherwise, one that needs no credentials, a parameter given twice.
 * @throws BAD_REQUEST when the call is for another namespace than its parameters say.
 */
export function requireSelected(database: string | undefined, namespace: string): void {
  if (database === undefined || database === namespace) return
  throw new SvcError(
    'BAD_REQUEST',
    `cannot use database ${shown(database)}: the call is for namespace "${namespace}"; send X-Namespace alike, and the path as documented`,
  )
}

/** @throws BAD_REQUEST for a name that no namespace can have. */
export function requireNamespaceName(name: string): void {
  const problem = namespaceProblem(name)
  if (problem !== undefined) throw new SvcError('BAD_REQUEST', problem)
}
