/**
 * What tools ask a server about itself and about their session: version(), current_schema(), current_setting('TimeZone') and the like, with or without
 * parentheses, also as pg_catalog's. They are constants of this server; nothing of DuckDB's is shown.
 */
import { VERSION } from 'svcdb/lib/version'
import { constantText, literal, type Node, refuse } from './ast.ts'
import { catalogName, SCHEMA } from './catalog.ts'
import { foldName } from './names.ts'
import type { Printer } from './printer.ts'

const USER = 'svc'

/** By the folded name of the setting. */
const SETTINGS: Record<string, string> = {
  server_version: VERSION,
  timezone: 'UTC',
  search_path: SCHEMA,
  server_encoding: 'UTF8',
  client_encoding: 'UTF8',
  datestyle: 'ISO',
  transaction_read_only: 'on',
  default_transaction_read_only: 'on',
}

const CONSTANTS: Record<string, (p: Printer) => string> = {
  version: () => `svc ${VERSION}`,
  current_schema: () => SCHEMA,
  current_database: (p) => catalogName(p.namespace),
  current_catalog: (p) => catalogName(p.namespace),
  current_user: () => USER,
  current_role: () => USER,
  session_user: () => USER,
  user: () => USER,
}

/** A call of one of these functions; undefined: it is none. */
export function printSessionCall(p: Printer, node: Node): string | undefined {
  const name = foldName(String(node.function_name))
  const isOurs = node.catalog === undefined && (node.schema === undefined || ['main', 'pg_catalog'].includes(foldName(String(node.schema))))
  if (!isOurs || node.filter !== undefined || node.distinct === true) return undefined
  const args = (node.children ?? []) as Node[]
  if (Object.hasOwn(CONSTANTS, name) && args.length === 0) return p.plain ? `${name}()` : constant(p, CONSTANTS[name](p))
  if (name !== 'current_setting' || args.length !== 1) return undefined
  const setting = constantText(args[0])
  if (setting === undefined) throw refuse("cannot call current_setting: the name of the setting must be a constant such as 'TimeZone'")
  if (p.plain) return `${name}(${literal(setting)})`
  const value = Object.hasOwn(SETTINGS, foldName(setting)) ? SETTINGS[foldName(setting)] : undefined
  if (value === undefined)
    throw refuse(`cannot read the setting "${setting}": there is none of that name; known are ${Object.keys(SETTINGS).sort().join(', ')}`)
  return constant(p, value)
}

/** A name without parentheses that no column has. */
export function printSessionWord(p: Printer, name: string): string | undefined {
  const word = foldName(name)
  return Object.hasOwn(CONSTANTS, word) && word !== 'version' && word !== 'current_database' ? constant(p, CONSTANTS[word](p)) : undefined
}

function constant(p: Printer, text: string): string {
  p.rewrites++
  return literal(text)
}
