/** State of plugins that are not selected: it stays where it is, and nobody acts by it. */
import { SvcError } from '../lib/errors/index.ts'
import type { StateStore } from './state.ts'
import { STATE_OWNER } from './state-engine.ts'

/**
 * Of keys of what a plugin has begun and must end before anything is written: a start without that plugin is refused. The value says what it is, such as
 * `the deletion of namespace "acme"`; or `{ what, beside }`, where only a start with another plugin would do harm, whose id `beside` is.
 */
export const UNFINISHED = 'unfinished/'

type Unfinished = string | { what: string; beside: string }

/** @param selected ids of plugins. @returns whose it is, in order. @throws CONFIG_ERROR where one of them has begun what must be ended first. */
export async function unusedState(owners: readonly string[], selected: ReadonlySet<string>, state: (owner: string) => StateStore): Promise<string[]> {
  const unused = owners.filter((owner) => owner !== STATE_OWNER && !selected.has(owner))
  for (const owner of unused) {
    for (const { value } of await state(owner).list<Unfinished>({ prefix: UNFINISHED })) {
      const [what, beside] = typeof value === 'string' ? [value] : [value.what, value.beside]
      if (beside !== undefined && !selected.has(beside)) continue
      const without = beside === undefined ? `without plugin "${owner}"` : `with plugin "${beside}" and without "${owner}"`
      throw new SvcError(
        'CONFIG_ERROR',
        `cannot start ${without}: that has begun what must be ended before anything is written, ${what}; select it, with its section, until that is done`,
      )
    }
  }
  return unused
}
