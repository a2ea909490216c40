/**
 * The definitions, in memory and in the state store. A change is made to a copy, committed, and takes effect when it is durable; changes that come while
 * one is being committed share the next transaction. Only what changed is written, and only where it is in the state store as it was known here: else what
 * another node has made of it is taken up, and the change is made to that.
 */
import { isDeepStrictEqual } from 'node:util'
import { type Following, followState, importState, type StateStore } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { DEFAULT_NAMESPACE, type Definition, decode, definitionOf, storedOf } from './definition.ts'

/** Of the file of older versions: far above what a million namespaces take. */
const MAX_FILE_BYTES = 2 ** 30
const PREFIX = 'namespace/'

export type Change = (definitions: Map<string, Definition>) => void

interface Waiting {
  change: Change
  resolve(): void
  reject(error: unknown): void
}

export interface RegistryWatcher {
  /** Another node has removed namespaces, or made them anew: resolves when nothing of those before is left here. */
  settle(): Promise<void>
  /** Another node has removed it. */
  gone(name: string): void
  /** What other nodes have changed cannot be read; it is tried again. */
  failed(error: Error): void
}

export class Registry {
  private definitions = new Map<string, Definition>()
  /** Of which definitions the names are: every change makes another map. */
  private sorted: { of: ReadonlyMap<string, Definition>; names: readonly string[] } | undefined
  /** Gone by another node, and waited for here: marked as being deleted in memory alone. */
  private readonly ending = new Set<string>()
  private waiting: Waiting[] = []
  private writing = false
  private state: StateStore | undefined
  private following: Following | undefined
  /** One at a time: commits, and what comes from other nodes. */
  private turn: Promise<unknown> = Promise.resolve()

  /**
   * Call once, before anything else. @param legacy the file in which older versions kept the definitions, which is imported.
   * @throws SvcError naming the file or the entry that cannot be read.
   */
  async open(state: StateStore, legacy: string | undefined, { settle, gone, failed }: RegistryWatcher): Promise<void> {
    const read = (text: string) => {
      const definitions = decode(text)
      return (tx: { put(key: string, value: unknown): void }) => {
        for (const definition of definitions) tx.put(PREFIX + definition.name, storedOf(definition))
      }
    }
    await importState(state, { path: legacy, maxBytes: MAX_FILE_BYTES, what: 'namespaces file', read })
    this.state = state
    const apply = (keys: ReadonlySet<string> | undefined) =>
      this.inTurn(async () => {
        const found = await this.current(state, keys)
        const next = keys === undefined ? new Map<string, Definition>() : new Map(this.definitions)
        for (const [name, definition] of found) {
          if (definition === undefined) next.delete(name)
          else next.set(name, definition)
        }
        if (this.closeEnded(next)) await settle()
        const before = this.definitions
        this.definitions = next
        this.ending.clear()
        for (const name of before.keys()) if (!next.has(name)) gone(name)
      })
    this.following = await followState(state, { prefixes: [PREFIX], apply, failed })
  }

  /** Nothing more is written to those that are gone, or others under their name. @returns whether there are any. */
  private closeEnded(next: ReadonlyMap<string, Definition>): boolean {
    const ended = [...this.definitions.values()].filter(({ name, createdAt }) => next.get(name)?.createdAt !== createdAt)
    if (ended.length === 0) return false
    this.definitions = new Map(this.definitions)
    for (const definition of ended) {
      this.ending.add(definition.name)
      this.definitions.set(definition.name, { ...definition, deleting: true })
    }
    return true
  }

  /** Nothing comes from other nodes any more. */
  async close(): Promise<void> {
    await this.following?.stop()
  }

  get size(): number {
    return this.definitions.size
  }

  get(name: string): Definition | undefined {
    return this.definitions.get(name)
  }

  /** Of those that are not being deleted, and of `default`, in their order: made once for each change, as a hundred thousand take a while. */
  names(): readonly string[] {
    if (this.sorted?.of !== this.definitions) {
      const names = [...this.definitions.values()].filter(({ deleting }) => !deleting).map(({ name }) => name)
      if (!this.definitions.has(DEFAULT_NAMESPACE)) names.push(DEFAULT_NAMESPACE)
      this.sorted = { of: this.definitions, names: names.sort() }
    }
    return this.sorted.names
  }

  /** Another node has deleted it: what others keep for its name may be of the next one. */
  isEnding(name: string): boolean {
    return this.ending.has(name)
  }

  values(): Iterable<Definition> {
    return this.definitions.values()
  }

  /** Resolves when the change is durable. @throws what the change throws, or why it could not be written: nothing has changed then. */
  commit(change: Change): Promise<void> {
    return new Promise((resolve, reject) => {
      this.waiting.push({ change, resolve, reject })
      if (!this.writing) void this.write()
    })
  }

  /** Resolves when all changes so far are done, one way or the other. */
  settled(): Promise<void> {
    return this.commit(() => {
      throw new Error('nothing is to be changed')
    }).catch(() => {})
  }

  private async write(): Promise<void> {
    this.writing = true
    while (this.waiting.length > 0) await this.inTurn(() => this.commitAll(this.waiting.splice(0)))
    this.writing = false
  }

  /** Never rejects. */
  private async commitAll(batch: readonly Waiting[]): Promise<void> {
    for (;;) {
      const next = new Map(this.definitions)
      const refusals = new Map<Waiting, unknown>()
      for (const one of batch) {
        try {
          one.change(next)
        } catch (error) {
          refusals.set(one, error)
        }
      }
      let failure: unknown
      try {
        if (refusals.size < batch.length && !(await this.store(next))) continue
        this.definitions = next
      } catch (error) {
        failure = error
      }
      for (const one of batch) {
        if (refusals.has(one)) one.reject(refusals.get(one))
        else if (failure !== undefined) one.reject(failure)
        else one.resolve()
      }
      return
    }
  }

  /** @returns false when another node was faster: what it has made is known now. */
  private async store(next: ReadonlyMap<string, Definition>): Promise<boolean> {
    const before = this.definitions
    const changed = [...next].filter(([name, definition]) => before.get(name) !== definition).map(([name]) => name)
    for (const name of before.keys()) if (!next.has(name)) changed.push(name)
    if (changed.length === 0) return true
    const others = await (this.state as StateStore).transaction(async (tx) => {
      const known = await Promise.all(changed.map((name) => tx.get(PREFIX + name)))
      const others = new Map(changed.map((name, i) => [name, this.definition(PREFIX + name, known[i])]))
      for (const [name, definition] of others) if (isSame(definition, before.get(name))) others.delete(name)
      if (others.size > 0) return others
      for (const name of changed) {
        const definition = next.get(name)
        if (definition === undefined) tx.delete(PREFIX + name)
        else tx.put(PREFIX + name, storedOf(definition))
      }
      return others
    })
    if (others.size === 0) return true
    this.definitions = new Map(before)
    for (const [name, definition] of others) {
      if (definition === undefined) this.definitions.delete(name)
      else this.definitions.set(name, definition)
    }
    return false
  }

  /** As the state store has them. @param keys undefined = all. @returns undefined for those that are gone. */
  private async current(state: StateStore, keys: ReadonlySet<string> | undefined): Promise<Map<string, Definition | undefined>> {
    const entries =
      keys === undefined
        ? await state.list<unknown>({ prefix: PREFIX })
        : await Promise.all([...keys].map(async (key) => ({ key, value: await state.get<unknown>(key) })))
    return new Map(entries.map(({ key, value }) => [key.slice(PREFIX.length), this.definition(key, value)]))
  }

  private inTurn<T>(act: () => Promise<T>): Promise<T> {
    const done = this.turn.then(act)
    this.turn = done.catch(() => {})
    return done
  }

  private definition(key: string, value: unknown): Definition | undefined {
    return value === undefined ? undefined : this.read(key, value)
  }

  private read(key: string, value: unknown): Definition {
    try {
      const definition = definitionOf(value)
      if (PREFIX + definition.name !== key) throw new Error(`it is of "${definition.name}"`)
      return definition
    } catch (error) {
      throw new SvcError(
        'CONFIG_ERROR',
        `cannot open namespaces: entry "${key}" of the state store: ${(error as Error).message}; run the svc that wrote it or a newer one`,
        {
          cause: error,
        },
      )
    }
  }
}

/** Whether what is stored is what is known here, which may have members that are undefined. */
function isSame(stored: Definition | undefined, known: Definition | undefined): boolean {
  if (stored === undefined || known === undefined) return stored === known
  return isDeepStrictEqual(stored, definitionOf(JSON.parse(JSON.stringify(storedOf(known)))))
}
