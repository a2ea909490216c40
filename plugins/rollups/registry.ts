/**
 * All rollups, and what is kept of them: one entry each in the state store, and the place of the change cursor, written together.
 *
 * Nodes that share a state store share the rollups: each hears which others make and delete. How far one has come is written by whoever computes it, and read at a
 * start only. What another node has deleted, or made anew by the same name, is never written again.
 */
import { type ChangePosition, type Following, followState, type StateStore, type StateTransaction } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import type { Definition } from './definition.ts'
import { type KeptRollup, keyOf, Rollup } from './rollup.ts'

const POSITION = 'position'
const PREFIX = 'rollup/'
/** Changes with what a rollup is, and not with how far it has come. */
const DEFINED = 'defined/'
const PAGE = 256

export interface RegistryLimits {
  perNamespace: number
  perSource: number
  inAll: number
  dirtyRanges: number
}

export interface RegistryWatcher {
  /** Another node has made it. */
  made(rollup: Rollup): void
  /** Another node has deleted some. */
  deleted(): void
  /** What other nodes have changed cannot be read; it is tried again. */
  failed(error: Error): void
}

export class Registry {
  private readonly limits: RegistryLimits
  private readonly byKey = new Map<string, Rollup>()
  private readonly bySource = new Map<string, Rollup[]>()
  private readonly byTarget = new Map<string, Rollup>()
  private readonly byNamespace = new Map<string, Rollup[]>()
  /** Versions as last written. */
  private readonly written = new WeakMap<Rollup, number>()
  private state: StateStore | undefined
  private following: Following | undefined
  private saving: Promise<void> = Promise.resolve()
  /** Up to where changes were seen, as last written. */
  position: ChangePosition | undefined

  constructor(limits: RegistryLimits) {
    this.limits = limits
  }

  async open(state: StateStore, watcher: RegistryWatcher): Promise<void> {
    this.state = state
    this.position = await state.get<ChangePosition>(POSITION)
    let isRead = false
    const made = (rollup: Rollup) => {
      if (isRead) watcher.made(rollup)
    }
    this.following = await followState(state, {
      prefixes: [DEFINED],
      failed: watcher.failed,
      apply: (keys) =>
        this.inTurn(async () => {
          const gone = keys === undefined ? await this.readAll(state, made) : await this.read(state, keys, made)
          if (gone > 0) watcher.deleted()
        }),
    })
    isRead = true
  }

  /** Nothing comes from other nodes any more. */
  async close(): Promise<void> {
    await this.following?.stop()
  }

  get size(): number {
    return this.byKey.size
  }

  all(): IterableIterator<Rollup> {
    return this.byKey.values()
  }

  namespaces(): string[] {
    return [...this.byNamespace.keys()]
  }

  get(namespace: string, name: string): Rollup | undefined {
    return this.byKey.get(keyOf(namespace, name))
  }

  /** By name. */
  list(namespace: string): readonly Rollup[] {
    return this.byNamespace.get(namespace) ?? []
  }

  /** Those that aggregate a measurement. */
  of(namespace: string, source: string): readonly Rollup[] {
    return this.bySource.get(`${namespace}\0${source}`) ?? []
  }

  /** The one that writes a measurement. */
  writerOf(namespace: string, target: string): Rollup | undefined {
    return this.byTarget.get(`${namespace}\0${target}`)
  }

  /** The tiers that rest on it, nearest first. */
  above(rollup: Rollup): Rollup[] {
    const { namespace, target } = rollup.definition
    const next = this.of(namespace, target)
    return [...next, ...next.flatMap((tier) => this.above(tier))]
  }

  /** @throws CONFLICT for a name or a target that is taken, INVALID_REQUEST for a cycle, RATE_LIMITED for one too many. */
  check({ namespace, name, source, target }: Definition): void {
    const refused = (code: 'CONFLICT' | 'INVALID_REQUEST' | 'RATE_LIMITED', cause: string) => new SvcError(code, `cannot create rollup "${name}": ${cause}`)
    if (this.get(namespace, name) !== undefined) throw taken(name)
    const writer = this.writerOf(namespace, target)
    if (writer !== undefined) throw refused('CONFLICT', `"${target}" is the target of rollup "${writer.definition.name}"; choose another target_measurement`)
    const seen = new Set<string>()
    for (let at: string | undefined = source; at !== undefined && !seen.has(at); at = this.writerOf(namespace, at)?.definition.source) {
      if (at === target)
        throw refused(
          'INVALID_REQUEST',
          `its source "${source}" is computed from its target "${target}", and so it would be computed from itself; choose another target_measurement`,
        )
      seen.add(at)
    }
    if (this.list(namespace).length >= this.limits.perNamespace)
      throw refused('RATE_LIMITED', `the namespace has ${this.limits.perNamespace}, and rollups.max_rollups_per_namespace is as many; delete one`)
    if (this.of(namespace, source).length >= this.limits.perSource)
      throw refused('RATE_LIMITED', `${this.limits.perSource} aggregate "${source}", and rollups.max_rollups_per_measurement is as many; delete one`)
    if (this.size >= this.limits.inAll) throw refused('RATE_LIMITED', `the server has ${this.limits.inAll}, and rollups.max_rollups is as many; delete one`)
  }

  /** @throws as `check`. Durable when it resolves. */
  async create(definition: Definition): Promise<Rollup> {
    this.check(definition)
    const rollup = new Rollup(definition, this.limits.dirtyRanges)
    this.add(rollup)
    try {
      await this.save(undefined, [rollup])
    } catch (error) {
      this.forget(rollup)
      throw error
    }
    return rollup
  }

  async delete(rollup: Rollup): Promise<void> {
    await this.transact((tx) => {
      tx.delete(PREFIX + rollup.key)
      tx.delete(DEFINED + rollup.key)
    })
    this.forget(rollup)
  }

  /**
   * Writes what has changed. @param position up to where changes were seen at the time of the call. @param more written in any case.
   * Calls are done one after the other.
   */
  save(position: ChangePosition | undefined, more: readonly Rollup[] = []): Promise<void> {
    const changed = [...this.byKey.values()].filter((rollup) => rollup.version !== this.written.get(rollup) || more.includes(rollup))
    const moved = position !== undefined && position !== this.position ? position : undefined
    if (changed.length === 0 && moved === undefined) return this.saving
    const entries = changed.map((rollup) => ({ rollup, version: rollup.version, need: rollup.need, kept: rollup.kept() }))
    return this.transact(async (tx) => {
      const known = await Promise.all(entries.map(({ rollup }) => tx.get<KeptRollup>(PREFIX + rollup.key)))
      if (moved !== undefined) tx.put(POSITION, moved)
      for (const [i, { rollup, kept }] of entries.entries()) {
        const isNew = more.includes(rollup)
        // By another node, which may have been heard of while this waited for its turn.
        if (isNew && (rollup.deleted || known[i] !== undefined)) throw taken(rollup.definition.name)
        if (rollup.deleted) continue
        // Another node has deleted it.
        if (!isNew && !isSame(known[i], rollup)) continue
        tx.put(PREFIX + rollup.key, kept)
        if (isNew) tx.put(DEFINED + rollup.key, rollup.definition)
      }
    }).then(() => {
      if (moved !== undefined) this.position = moved
      for (const { rollup, version, need } of entries) {
        this.written.set(rollup, version)
        rollup.saved(need)
      }
    })
  }

  private async transact(body: (tx: StateTransaction) => void | Promise<void>): Promise<void> {
    const { state } = this
    if (state === undefined) throw new SvcError('DATABASE_CLOSED', 'cannot keep rollups: the node is starting; retry in a moment')
    await this.inTurn(() => state.transaction(body))
  }

  private inTurn(act: () => Promise<void>): Promise<void> {
    const done = this.saving.then(act)
    this.saving = done.catch(() => {})
    return done
  }

  /** @returns how many have gone. */
  private async readAll(state: StateStore, made: (rollup: Rollup) => void): Promise<number> {
    // One that is being made is not stored yet.
    const missing = new Set([...this.byKey.values()].filter((rollup) => this.written.has(rollup)))
    for (let start: string | undefined; ; ) {
      const page = await state.list<KeptRollup>({ prefix: PREFIX, limit: PAGE, ...(start === undefined ? {} : { start }) })
      for (const { value } of page) {
        const known = this.get(value.definition.namespace, value.definition.name)
        if (known !== undefined && isSame(value, known)) missing.delete(known)
        else this.takeUp(value, made)
      }
      if (page.length < PAGE) break
      start = `${page[page.length - 1].key}\0`
    }
    const gone = [...missing].filter(({ deleted }) => !deleted)
    for (const rollup of gone) this.forget(rollup)
    return gone.length
  }

  private async read(state: StateStore, keys: ReadonlySet<string>, made: (rollup: Rollup) => void): Promise<number> {
    let gone = 0
    for (const key of keys) {
      const own = key.slice(DEFINED.length)
      const kept = await state.get<KeptRollup>(PREFIX + own)
      const known = this.byKey.get(own)
      if (kept !== undefined && !isSame(kept, known)) this.takeUp(kept, made)
      else if (kept === undefined && known !== undefined && this.written.has(known)) {
        this.forget(known)
        gone++
      }
    }
    return gone
  }

  private takeUp(kept: KeptRollup, made: (rollup: Rollup) => void): void {
    const rollup = Rollup.restore(kept, this.limits.dirtyRanges)
    const known = this.byKey.get(rollup.key)
    if (known !== undefined) this.forget(known)
    this.add(rollup)
    this.written.set(rollup, rollup.version)
    made(rollup)
  }

  private add(rollup: Rollup): void {
    const { namespace, source, target } = rollup.definition
    this.byKey.set(rollup.key, rollup)
    this.byTarget.set(`${namespace}\0${target}`, rollup)
    const sourceKey = `${namespace}\0${source}`
    this.bySource.set(sourceKey, [...(this.bySource.get(sourceKey) ?? []), rollup])
    const list = [...this.list(namespace), rollup]
    this.byNamespace.set(
      namespace,
      list.sort((a, b) => (a.definition.name < b.definition.name ? -1 : 1)),
    )
  }

  private forget(rollup: Rollup): void {
    rollup.deleted = true
    const { namespace, source, target } = rollup.definition
    // Another may have taken its place.
    if (this.byKey.get(rollup.key) === rollup) this.byKey.delete(rollup.key)
    if (this.writerOf(namespace, target) === rollup) this.byTarget.delete(`${namespace}\0${target}`)
    const sourceKey = `${namespace}\0${source}`
    const without = (list: readonly Rollup[] | undefined) => (list ?? []).filter((other) => other !== rollup)
    const [ofSource, ofNamespace] = [without(this.bySource.get(sourceKey)), without(this.byNamespace.get(namespace))]
    if (ofSource.length === 0) this.bySource.delete(sourceKey)
    else this.bySource.set(sourceKey, ofSource)
    if (ofNamespace.length === 0) this.byNamespace.delete(namespace)
    else this.byNamespace.set(namespace, ofNamespace)
  }
}

const taken = (name: string): SvcError =>
  new SvcError('CONFLICT', `cannot create rollup "${name}": the name is taken; delete that rollup first, or choose another name`)

const isSame = (kept: KeptRollup | undefined, rollup: Rollup | undefined): boolean => JSON.stringify(kept?.definition) === JSON.stringify(rollup?.definition)
