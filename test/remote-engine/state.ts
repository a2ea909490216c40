/** State over the channel: a body reads as it goes and writes nothing; the commit says what was read, and is refused where that is no longer so. */
import type { StateEntry, StateRange, StateStore, StateTransaction } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import type { StateCommit } from './server.ts'

const MAX_ATTEMPTS = 1000

export type Ask = <T>(kind: string, body: unknown) => Promise<T>

export class RemoteState implements StateStore {
  private readonly owner: string
  private readonly ask: Ask

  constructor(owner: string, ask: Ask) {
    this.owner = owner
    this.ask = ask
  }

  get<T>(key: string): Promise<T | undefined> {
    return this.ask('state get', { owner: this.owner, key })
  }

  list<T>(range: StateRange = {}): Promise<StateEntry<T>[]> {
    return this.ask('state list', { owner: this.owner, range })
  }

  async transaction<T>(body: (tx: StateTransaction) => T | Promise<T>): Promise<T> {
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const draft = new Draft(this)
      const result = await run(body, draft)
      const committed = await this.ask<boolean>('state commit', { owner: this.owner, ...draft.close() } satisfies StateCommit)
      if (!committed) continue
      if ('error' in result) throw result.error
      return result.value
    }
    throw new SvcError('CONFLICT', 'cannot commit a state transaction: others came first each time; try again')
  }
}

/** A body that fails writes nothing; what it has read decides whether its failure is an answer. */
async function run<T>(body: (tx: StateTransaction) => T | Promise<T>, draft: Draft): Promise<{ value: T } | { error: unknown }> {
  try {
    return { value: await body(draft) }
  } catch (error) {
    draft.empty()
    return { error }
  }
}

class Draft implements StateTransaction {
  private readonly store: RemoteState
  private readonly writes = new Map<string, unknown>()
  private readonly reads: StateCommit['reads'] = []
  private readonly lists: StateCommit['lists'] = []
  private open = true

  constructor(store: RemoteState) {
    this.store = store
  }

  async get<T>(key: string): Promise<T | undefined> {
    this.requireOpen()
    if (this.writes.has(key)) return this.writes.get(key) as T | undefined
    const value = await this.store.get<T>(key)
    this.reads.push({ key, value })
    return value
  }

  async list<T>(range: StateRange = {}): Promise<StateEntry<T>[]> {
    this.requireOpen()
    const { limit, ...all } = range
    const found = await this.store.list<T>(all)
    this.lists.push({ range: all, found })
    const { prefix = '', start, end } = range
    const merged = new Map(found.map(({ key, value }) => [key, value]))
    for (const [key, value] of this.writes) {
      if (!key.startsWith(prefix) || (start !== undefined && utf8Order(key, start) < 0) || (end !== undefined && utf8Order(key, end) >= 0)) continue
      if (value === undefined) merged.delete(key)
      else merged.set(key, value as T)
    }
    const entries = [...merged].sort(([a], [b]) => utf8Order(a, b)).map(([key, value]) => ({ key, value }))
    return entries.slice(0, limit)
  }

  put(key: string, value: unknown): void {
    this.requireOpen()
    this.writes.set(key, structuredClone(value))
  }

  delete(key: string): void {
    this.requireOpen()
    this.writes.set(key, undefined)
  }

  empty(): void {
    this.writes.clear()
  }

  close(): Omit<StateCommit, 'owner'> {
    this.open = false
    return { reads: this.reads, lists: this.lists, writes: [...this.writes].map(([key, value]) => ({ key, value })) }
  }

  private requireOpen(): void {
    if (!this.open) throw new Error('cannot use a state transaction: it has ended; its body must await all that it does')
  }
}

function utf8Order(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b))
}
