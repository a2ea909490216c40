/** One owner's state. Transactions are optimistic: what a body has read is compared with what is there when its writes are stored, and it runs again if it differs. */
import type { StateEntry, StateRange, StateStore, StateTransaction } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { entryOf, parsed } from '../common/state-draft.ts'
import type { OwnerCommits } from './commits.ts'
import { Draft, type Writes } from './draft.ts'
import { boundsOf } from './ranges.ts'
import type { Reads } from './reads.ts'
import type { Told, Watches } from './watches.ts'

/** Times that a body runs whose reads others change. */
const MAX_ATTEMPTS = 1000
const NOTHING: Writes = new Map()

interface OwnerDependencies {
  owner: string
  reads: Reads
  commits: OwnerCommits
  watches: Watches
}

type Attempted<T> = { result: T } | { again: 'any' | 'durable' }

export class OwnerState implements StateStore {
  private readonly dependencies: OwnerDependencies

  constructor(dependencies: OwnerDependencies) {
    this.dependencies = dependencies
  }

  async get<T>(key: string): Promise<T | undefined> {
    return parsed<T>(await this.dependencies.reads.get(this.dependencies.owner, key))
  }

  async list<T>(range: StateRange = {}): Promise<StateEntry<T>[]> {
    return (await this.dependencies.reads.list(this.dependencies.owner, boundsOf(range, range.limit))).map(entryOf<T>)
  }

  async transaction<T>(body: (tx: StateTransaction) => T | Promise<T>): Promise<T> {
    const { commits } = this.dependencies
    let answer = await (await this.begin(body, commits.pending))()
    for (let attempts = 1; 'again' in answer; attempts++) {
      if (attempts === MAX_ATTEMPTS)
        throw new SvcError('CONFLICT', 'cannot commit a state transaction: what it has read was changed by others each time; try again')
      // What would not have been written must not be of what is not durable.
      const pending = answer.again === 'durable' ? NOTHING : commits.pending
      const begun = await commits.inTurn(async () => ({ end: await this.begin(body, pending) }))
      answer = await begun.end()
    }
    return answer.result
  }

  watch(prefixes: readonly string[], told: Told): Promise<() => void> {
    const { watches, owner } = this.dependencies
    return watches.watch(owner, prefixes, told)
  }

  /** Runs the body, and asks for its commit. @returns what waits for that. */
  private async begin<T>(body: (tx: StateTransaction) => T | Promise<T>, pending: Writes): Promise<() => Promise<Attempted<T>>> {
    const { owner, reads, commits } = this.dependencies
    const { generation } = commits
    const draft = new Draft(reads, owner, pending)
    try {
      const result = await body(draft)
      if (draft.writes.size === 0) return async () => ((await this.isStale(draft)) ? { again: 'durable' } : { result })
      const stored = commits.commit(draft, generation)
      stored.catch(() => {}) // whoever waits is told
      return async () => ((await stored) ? { result } : { again: 'any' })
    } catch (error) {
      if (draft.failure !== undefined) throw error
      // What a body reads one after the other may be of two times: what it makes of that is not an answer.
      return async () => {
        if (await this.isStale(draft)) return { again: 'durable' }
        throw error
      }
    } finally {
      draft.end()
    }
  }

  private async isStale(draft: Draft): Promise<boolean> {
    if (draft.torn) return true
    if (draft.isOfOneTime) return false
    const { owner, reads } = this.dependencies
    const { gets, lists } = draft
    const column = <C>(of: (list: (typeof lists)[number]) => C): C[] => lists.map(of)
    return reads.isStale(owner, [
      [...gets.keys()].map((key) => Buffer.from(key)),
      [...gets.values()],
      column(({ from }) => from),
      column(({ until }) => until),
      column(({ limit }) => limit),
      column(({ digest }) => digest),
    ])
  }
}
