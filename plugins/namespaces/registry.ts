/**
 * The definitions, in memory and in the state store. A change is made to a draft, committed, and takes effect when it is durable; changes that come while
 * one is being committed share the next transaction. Only what changed is written, and only where it is in the state store as it was known here: else what
 * another node has made of it is taken up, and the change is made to that. A change costs as much as it changes, however many definitions there are.
 */
import { isDeepStrictEqual } from 'node:util'
import { type Following, followState, importState, type StateStore, UNFINISHED } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { DEFAULT_NAMESPACE, type Definition, decode, definitionOf, storedOf } from './definition.ts'

/** Of the file of older versions: far above what a million namespaces take. */
const MAX_FILE_BYTES = 2 ** 30
const PREFIX = 'namespace/'

/** Names that change at once above which their order is made anew when somebody asks for it. */
const MANY_NAMES = 100

type Change = (definitions: Draft) => void

interface Waiting {
  change: Change
  resolve(): void
  reject(error: unknown): void
}

interface RegistryWatcher {
  /** Another node has removed namespaces, or made them anew: resolves when nothing of those before is left here. */
  settle(): Promise<void>
  /** Another node has removed it, or made it anew: resolves when nothing is kept here of the former. Called again until it has not thrown. */
  gone(name: string): void | Promise<void>
  /** What other nodes have changed cannot be read; it is tried again. */
  failed(error: Error): void
}

/** The definitions as they will be. */
class Draft {
  /** What differs from those there are; undefined = it goes. */
  readonly changed = new Map<string, Definition | undefined>()
  size: number
  private readonly definitions: ReadonlyMap<string, Definition>

  constructor(definitions: ReadonlyMap<string, Definition>) {
    this.definitions = definitions
    this.size = definitions.size
  }

  has(name: string): boolean {
    return this.get(name) !== undefined
  }

  get(name: string): Definition | undefined {
    return this.changed.has(name) ? this.changed.get(name) : this.definitions.get(name)
  }

  set(name: string, definition: Definition): void {
    this.put(name, definition)
  }

  delete(name: string): void {
    this.put(name, undefined)
  }

  private put(name: string, definition: Definition | undefined): void {
    this.size += Number(definition !== undefined) - Number(this.get(name) !== undefined)
    if (this.definitions.get(name) === definition) this.changed.delete(name)
    else this.changed.set(name, definition)
  }
}

export class Registry {
  private readonly definitions = new Map<string, Definition>()
  /** See `names`; undefined = not known any more. */
  private sorted: string[] | undefined
  /** Gone by another node, and waited for here: marked as being deleted in memory alone. */
  private readonly ending = new Set<string>()
  private waiting: Waiting[] = []
  private writing = false
  private state: StateStore | undefined
  private following: Following | undefined
  private watcher: RegistryWatcher | undefined
  /** One at a time: commits, and what comes from other nodes. */
  private turn: Promise<unknown> = Promise.resolve()

  /**
   * Call once, before anything else. @param legacy the file in which older versions kept the definitions, which is imported.
   * @throws SvcError naming the file or the entry that cannot be read.
   */
  async open(state: StateStore, legacy: string | undefined, watcher: RegistryWatcher): Promise<void> {
    const read = (text: string) => {
      const definitions = decode(text)
      return (tx: { put(key: string, value: unknown): void }) => {
        for (const definition of definitions) tx.put(PREFIX + definition.name, storedOf(definition))
      }
    }
    await importState(state, { path: legacy, maxBytes: MAX_FILE_BYTES, what: 'namespaces file', read })
    this.state = state
    this.watcher = watcher
    const apply = (keys: ReadonlySet<string> | undefined) =>
      this.inTurn(async () => {
        const found = await this.current(state, keys)
        if (keys === undefined) for (const name of this.definitions.keys()) if (!found.has(name)) found.set(name, undefined)
        await this.takeUp(found)
      })
    this.following = await followState(state, { prefixes: [PREFIX], apply, failed: (error) => watcher.failed(error) })
  }

  /** Takes up what other nodes have made, when nothing is left here of those that are gone, or others under their name. */
  private async takeUp(found: ReadonlyMap<string, Definition | undefined>): Promise<void> {
    const ended = this.closeEnded(found)
    if (ended.length > 0) await this.watcher?.settle()
    for (const name of ended) await this.watcher?.gone(name)
    this.put(found)
    for (const name of ended) this.ending.delete(name)
  }

  /** Nothing more is written to those that are gone, or others under their name. @returns them. */
  private closeEnded(found: ReadonlyMap<string, Definition | undefined>): string[] {
    const ended = new Map<string, Definition>()
    for (const [name, definition] of found) {
      const known = this.definitions.get(name)
      if (known !== undefined && known.createdAt !== definition?.createdAt) ended.set(name, { ...known, deleting: true })
    }
    for (const name of ended.keys()) this.ending.add(name)
    this.put(ended)
    return [...ended.keys()]
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

  /** Of those that are not being deleted, and of `default`, in their order. Not to be kept: the next change is made to this list. */
  names(): readonly string[] {
    if (this.sorted === undefined) {
      const names = [...this.definitions.values()].filter(({ deleting }) => !deleting).map(({ name }) => name)
      if (!this.definitions.has(DEFAULT_NAMESPACE)) names.push(DEFAULT_NAMESPACE)
      this.sorted = names.sort()
    }
    return this.sorted
  }

  /** Those behind one. @param most of them */
  namesAfter(name: string, most: number): string[] {
    const names = this.names()
    const at = firstAtLeast(names, name)
    const first = names[at] === name ? at + 1 : at
    return names.slice(first, first + most)
  }

  /** Whether it is among the names. */
  private isNamed(name: string): boolean {
    return this.definitions.get(name)?.deleting === false || (name === DEFAULT_NAMESPACE && !this.definitions.has(name))
  }

  /** Takes up definitions; undefined = it is gone. */
  private put(definitions: ReadonlyMap<string, Definition | undefined>): void {
    if (definitions.size > MANY_NAMES) this.sorted = undefined
    for (const [name, definition] of definitions) {
      const was = this.isNamed(name)
      if (definition === undefined) this.definitions.delete(name)
      else this.definitions.set(name, definition)
      if (this.sorted === undefined || this.isNamed(name) === was) continue
      const at = firstAtLeast(this.sorted, name)
      if (was) this.sorted.splice(at, 1)
      else this.sorted.splice(at, 0, name)
    }
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
      const draft = new Draft(this.definitions)
      const refusals = new Map<Waiting, unknown>()
      for (const one of batch) {
        try {
          one.change(draft)
        } catch (error) {
          refusals.set(one, error)
        }
      }
      let failure: unknown
      try {
        if (refusals.size < batch.length && !(await this.store(draft.changed))) continue
        this.put(draft.changed)
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
  private async store(changed: ReadonlyMap<string, Definition | undefined>): Promise<boolean> {
    if (changed.size === 0) return true
    const others = await (this.state as StateStore).transaction(async (tx) => {
      const known = await Promise.all([...changed.keys()].map(async (name) => [name, await tx.get(PREFIX + name)] as const))
      const others = new Map(known.map(([name, value]) => [name, this.definition(PREFIX + name, value)]))
      for (const [name, definition] of others) if (isSame(definition, this.definitions.get(name))) others.delete(name)
      if (others.size > 0) return others
      for (const [name, definition] of changed) {
        if (definition === undefined) tx.delete(PREFIX + name)
        else tx.put(PREFIX + name, storedOf(definition))
        // Without this plugin writes would be taken that the deletion takes when it goes on.
        if (definition?.deleting) tx.put(UNFINISHED + name, `the deletion of namespace "${name}"`)
        else if (this.definitions.get(name)?.deleting) tx.delete(UNFINISHED + name)
      }
      return others
    })
    await this.takeUp(others)
    return others.size === 0
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

/** Where a name is in a list in its order, or would be. */
function firstAtLeast(names: readonly string[], name: string): number {
  let low = 0
  for (let high = names.length; low < high; ) {
    const middle = (low + high) >>> 1
    if (names[middle] < name) low = middle + 1
    else high = middle
  }
  return low
}

/** Whether what is stored is what is known here, which may have members that are undefined. */
function isSame(stored: Definition | undefined, known: Definition | undefined): boolean {
  if (stored === undefined || known === undefined) return stored === known
  return isDeepStrictEqual(stored, definitionOf(JSON.parse(JSON.stringify(storedOf(known)))))
}
