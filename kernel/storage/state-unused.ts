/** State of plugins that are not selected: it stays where it is, and nobody acts by it. */
import { SvcError } from '../lib/errors/index.ts'
import type { StateStore } from './state.ts'
import { STATE_OWNER } from './state-engine.ts'

/**
 * Of keys of what a plugin has begun and must end before anything is written: a start without that plugin is refused. The value says what it is, such as
 * `the deletion of namespace "acme"`.
 */
export const UNFINISHED = 'unfinished/'

/** @param selected ids of plugins. @returns whose it is, in order. @throws CONFIG_ERROR where one of them has begun what must be ended first. */
export async function unusedState(owners: readonly string[], selected: ReadonlySet<string>, state: (owner: string) => StateStore): Promise<string[]> {
  const unused = owners.filter((owner) => owner !== STATE_OWNER && !selected.has(owner))
  for (const owner of unused) {
    const [unfinished] = await state(owner).list<string>({ prefix: UNFINISHED, limit: 1 })
    if (unfinished !== undefined)
      throw new SvcError(
        'CONFIG_ERROR',
        `cannot start without plugin "${owner}": it has begun what must be ended before anything is written, ${unfinished.value}; select it, with its section, until that is done`,
      )
  }
  return unused
}
