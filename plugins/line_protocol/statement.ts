/** What InfluxDB 1 clients ask before they write: a database is not a thing of its own here, so making one succeeds and does nothing. */
import { SvcError } from 'svcdb/lib/errors'
import { shown } from './database-name.ts'
import { DEFAULT_LIMITS } from './limits.ts'
import { nameFault } from './series-key.ts'

const MAX_SHOWN = 128
/** With what may follow the name, such as WITH DURATION. A semicolon in quotes ends no statement. */
const CREATE = /create\s+database\s+(?:"((?:[^"\\]|\\.)+)"|([^\s;"]+))(?:[^;"]|"(?:[^"\\]|\\.)*")*/iy
const SHOW = /show\s+databases\s*/iy
const BETWEEN = /[\s;]*/y

/**
 * Several statements have a result each. One of another kind behind them is told as InfluxDB tells what fails on the way: with 200, and the reason as its result.
 * @param most of a request: each is answered with the names of databases, so that a small body could ask for a very large answer.
 * @param named the database that the request names. Any name can be written to, so it is one of those that are shown: some clients write only when theirs is.
 * @param check throws for a database that no write could go to.
 * @throws BAD_REQUEST when the first statement is of another kind, or `named` is no name.
 */
export function answerStatement(
  text: string | undefined,
  most: number,
  namespace: string,
  named: string | undefined,
  check: (database: string) => void = () => {},
): object {
  if (text === undefined || text.trim() === '') throw new SvcError('BAD_REQUEST', 'missing required parameter "q"')
  const fault = named === undefined ? undefined : nameFault('database', named, DEFAULT_LIMITS.maxNameBytes)
  if (fault !== undefined) throw new SvcError('BAD_REQUEST', `cannot use database ${shown(named as string)}: ${fault}; choose another name`)
  const results: object[] = []
  let at = /^\s*/.exec(text)?.[0].length ?? 0
  do {
    if (results.length === most) {
      const error = `cannot answer more than ${most} statements of one request (line_protocol.max_query_statements): this one and those behind it were not looked at; send them in another`
      results.push({ statement_id: results.length, error })
      break
    }
    const create = matchAt(CREATE, text, at)
    const known: RegExpExecArray | undefined = create ?? matchAt(SHOW, text, at)
    const end = at + (known?.[0].length ?? 0)
    if (known === undefined || (end < text.length && text[end] !== ';')) {
      const error = `cannot answer "${text.slice(at).trim().slice(0, MAX_SHOWN)}": this endpoint knows CREATE DATABASE and SHOW DATABASES; query by POST /api/v1/svc/sql`
      if (results.length === 0) throw new SvcError('BAD_REQUEST', error)
      results.push({ statement_id: results.length, error })
      break
    }
    if (create !== undefined) check(create[1]?.replace(/\\(.)/g, '$1') ?? (create[2] as string))
    results.push({ statement_id: results.length, ...(create === undefined && databases(namespace, named)) })
    at = end + (matchAt(BETWEEN, text, end)?.[0].length ?? 0)
  } while (at < text.length)
  return { results }
}

function databases(namespace: string, named: string | undefined): object {
  const values = [...new Set([namespace, named ?? namespace])].map((name) => [name])
  return { series: [{ name: 'databases', columns: ['name'], values }] }
}

function matchAt(expression: RegExp, text: string, at: number): RegExpExecArray | undefined {
  expression.lastIndex = at
  return expression.exec(text) ?? undefined
}
