/** Which measurement a bulk write goes to, by the text of an update or by the options of an ingest. */
import { SvcError } from 'svcdb/lib/errors'
import { APPEND_IF_EXISTS, CREATE_IF_ABSENT, FAIL_IF_ABSENT, FAIL_IF_EXISTS, type Ingest, REPLACE_IF_EXISTS } from './commands.ts'

const QUOTED = /^"((?:[^"]|"")+)"$/
const SQL = /^\s*(insert|update|delete|merge|create|drop|alter|truncate|copy|select|with|begin|commit|rollback|set|call)\s/i
/** One word that is SQL by itself is no name. */
const WORD = /^(?!(?:begin|start|commit|end|rollback|abort|checkpoint|vacuum|analyze)$)[\p{L}_][\p{L}\p{N}_.:-]*$/iu
/** What the server's only schema is called, as in information_schema. */
export const SCHEMA = 'main'

/** @throws SQL_ERROR when the text is a statement. */
export function measurementOf(text: string): string {
  const name = text.trim()
  const quoted = QUOTED.exec(name)?.[1]
  if (quoted !== undefined) return quoted.replaceAll('""', '"')
  if (SQL.test(text))
    throw new SvcError(
      'SQL_ERROR',
      `cannot run "${text.slice(0, 100)}" as an update: SQL only reads here; to write, name the measurement as the update's text and put record batches`,
    )
  return name
}

/** A text that can only be a measurement's name, so that preparing it prepares a bulk write. */
export function isMeasurement(text: string): boolean {
  const name = text.trim()
  return QUOTED.test(name) || WORD.test(name)
}

/**
 * @param exists whether a measurement is there.
 * @throws CONFLICT, NOT_FOUND as the table options say, BAD_REQUEST for what there is not: replacing, temporary tables.
 */
export function ingestTarget(ingest: Ingest, catalog: string, exists: (name: string) => boolean): { measurement: string; backfill?: boolean } {
  const { table, ifAbsent, ifExists } = ingest
  const what = `cannot ingest into "${table.slice(0, 256)}"`
  if (ingest.temporary) throw new SvcError('BAD_REQUEST', `${what}: there are no temporary tables; ingest into a measurement`)
  if (![undefined, '', catalog].includes(ingest.catalog)) throw new SvcError('NOT_FOUND', `${what}: there is no catalog "${ingest.catalog}"; leave it out`)
  if (![undefined, '', SCHEMA].includes(ingest.schema)) throw new SvcError('NOT_FOUND', `${what}: there is no schema "${ingest.schema}"; leave it out`)
  if (ifExists === REPLACE_IF_EXISTS)
    throw new SvcError('BAD_REQUEST', `${what}: a measurement is not replaced by an ingest; drop it first, or append (the same points are then written over)`)
  if (![0, CREATE_IF_ABSENT, FAIL_IF_ABSENT].includes(ifAbsent) || ![0, FAIL_IF_EXISTS, APPEND_IF_EXISTS].includes(ifExists))
    throw new SvcError('BAD_REQUEST', `${what}: its table options have the unknown values ${ifAbsent} and ${ifExists}`)
  if (ifAbsent === FAIL_IF_ABSENT && !exists(table))
    throw new SvcError('NOT_FOUND', `${what}: there is no such measurement; ingest with "create" or "create_append" to have it made`)
  if (ifExists === FAIL_IF_EXISTS && exists(table)) throw new SvcError('CONFLICT', `${what}: the measurement exists; ingest with "append" to add to it`)
  let backfill: boolean | undefined
  for (const [key, value] of ingest.options) {
    if (key !== 'backfill' || !['true', 'false'].includes(value))
      throw new SvcError(
        'BAD_REQUEST',
        `${what}: the option ${JSON.stringify(key)} = ${JSON.stringify(value.slice(0, 100))} is unknown; there is "backfill", "true" or "false"`,
      )
    backfill = value === 'true'
  }
  return { measurement: table, ...(backfill === undefined ? {} : { backfill }) }
}
