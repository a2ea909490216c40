/**
 * Plugins' state: ordered keys of one owner, JSON values. A transaction costs what it reads and writes, however much there is, and those of other keys do not
 * get in its way: a map that is copied for each (`../common/map-state.ts`) has neither.
 */
import type { StateEntry, StateRange, StateStore, StateTransaction } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { Draft, entryOf, parsed } from '../common/state-draft.ts'
import { SortedTexts } from './sorted-texts.ts'

/** Times that a body runs while others commit. */
const MAX_ATTEMPTS = 1000

export class MemoryState implements StateStore {
  private readonly entries = new SortedTexts()
  /** Resolves when those that others have overtaken have had their turn. */
  private turn: Promise<unknown> = Promise.resolve()

  async get<T>(key: string): Promise<T | undefined> {
    return parsed<T>(this.entries.text(key))
  }

  async list<T>(range: StateRange = {}): Promise<StateEntry<T>[]> {
    return this.entries.texts(range).map(entryOf<T>)
  }

  async transaction<T>(body: (tx: StateTransaction) => T | Promise<T>): Promise<T> {
    let answer = await this.attempt(body)
    for (let attempts = 1; answer === undefined; attempts++) {
      if (attempts === MAX_ATTEMPTS) throw new SvcError('CONFLICT', 'cannot commit a state transaction: others came first each time; try again')
      const again = this.turn.then(() => this.attempt(body))
      this.turn = again.catch(() => {})
      answer = await again
    }
    return answer.result
  }

  /** @returns undefined when what it has read is another by now. */
  private async attempt<T>(body: (tx: StateTransaction) => T | Promise<T>): Promise<{ result: T } | undefined> {
    const draft = new Draft(this.entries)
    try {
      const result = await body(draft)
      if (draft.isStale(this.entries)) return undefined
      for (const [key, text] of draft.writes) {
        if (text === undefined) this.entries.delete(key)
        else this.entries.set(key, text)
      }
      return { result }
    } catch (error) {
      if (!draft.isStale(this.entries)) throw error
      return undefined
    } finally {
      draft.end()
    }
  }
}
