/** Names that functions of plugins cannot have. */
import type { DeclaredSqlFunction } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { AGGREGATES, ALIASES, SCALARS, TABLE_FUNCTIONS, WINDOWS } from './functions.ts'

const OWN: ReadonlySet<string> = new Set(['time_bucket', 'date_bin', 'coalesce'])

/** @throws CONFIG_ERROR naming function and plugin. */
export function checkNames(functions: readonly DeclaredSqlFunction[]): void {
  for (const { name, plugin } of functions) {
    if ([SCALARS, AGGREGATES, WINDOWS, TABLE_FUNCTIONS, ALIASES, OWN].some((names) => names.has(name)))
      throw new SvcError(
        'CONFIG_ERROR',
        `cannot add SQL function "${name}" of plugin "${plugin}": the storage engine has a function of that name; choose another`,
      )
  }
}
