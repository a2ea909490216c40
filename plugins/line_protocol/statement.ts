/** What InfluxDB 1 clients ask before they write: a database is not a thing of its own here, so making one succeeds and does nothing. */
import { SvcError } from 'svcdb/lib/errors'

const OK = { results: [{ statement_id: 0 }] }
const MAX_SHOWN = 128
const CREATE = /^\s*create\s+database\s+(?:"((?:[^"\\]|\\.)+)"|([^\s;"]+))/i

/**
 * @param named the database that the request names. Any name can be written to, so it is one of those that are shown: some clients write only when theirs is.
 * @param check throws for a database that no write could go to.
 * @throws BAD_REQUEST
 */
export function answerStatement(
  statement: string | undefined,
  namespace: string,
  named: string | undefined,
  check: (database: string) => void = () => {},
): object {
  if (statement === undefined || statement.trim() === '') throw new SvcError('BAD_REQUEST', 'missing required parameter "q"')
  const create = CREATE.exec(statement)
  if (create !== null) {
    check(create[1]?.replace(/\\(.)/g, '$1') ?? create[2])
    return OK
  }
  if (/^show\s+databases(?:\s*;)?$/i.test(statement.trim())) {
    const values = [...new Set([namespace, named ?? namespace])].map((name) => [name])
    return { results: [{ statement_id: 0, series: [{ name: 'databases', columns: ['name'], values }] }] }
  }
  throw new SvcError(
    'BAD_REQUEST',
    `cannot answer "${statement.trim().slice(0, MAX_SHOWN)}": this endpoint knows CREATE DATABASE and SHOW DATABASES; query by POST /api/v1/svc/sql`,
  )
}
