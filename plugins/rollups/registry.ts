/**
 * All rollups, and what is kept of them: what each is, how far it has come, and the place of the change cursor, the last two written together.
 *
 * Nodes that share a state store share what the rollups are: each hears which others make and delete. Sources and targets are points, of which each node has its own:
 * how far a rollup has come, and the place of the cursor, are kept by the history of the points (`historyOf`), read at a start and written by that node alone. Nothing is
 * written of what another node has deleted, or made anew by the same name.
 */
import { type ChangePosition, type Following, followState, type StateEntry, type StateReader, type StateStore, type StateTransaction } from 'svcdb'
import { historyOf } from 'svcdb/lib/changes'
import { SvcError } from 'svcdb/lib/errors'
import type { Definition } from './definition.ts'
import { type KeptRollup, keyOf, Rollup } from './rollup.ts'

/** As it was kept, with how far rollups have come beside what they are, before nodes had places of their own. */
const FORMER_POSITION = 'position'
const POSITIONS = 'position/'
/** What rollups are; formerly also how far they have come. */
const PREFIX = 'rollup/'
/** As `PREFIX`; never written again once it is made. */
const DEFINED = 'defined/'
/** How far rollups have come, by history. */
const PROGRESS = 'progress/'
const PAGE = 256
/** Definitions that are read at once while others wait. */
const FEW = 16

interface RegistryLimits {
  perNamespace: number
  perSource: number
  /** Rollups on top of one another, the lowest included. */
  tiers: number
  inAll: number
  dirtyRanges: number
}

interface RegistryWatcher {
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
  private history = ''
  /** What is kept of before counts here, whatever its history: other nodes cannot have written it. */
  private alone = false
  /** That of before is of the points here. */
  private takesFormer = false
  private following: Following | undefined
  private saving: Promise<void> = Promise.resolve()
  /** Up to where changes were seen, as last written. */
  position: ChangePosition | undefined

  constructor(limits: RegistryLimits) {
    this.limits = limits
  }

  /** @param now a place in the log of changes here. @param shared other nodes may have the store, too. */
  async open(state: StateStore, { now, shared }: { now: ChangePosition; shared: boolean }, watcher: RegistryWatcher): Promise<void> {
    this.state = state
    this.history = historyOf(now)
    this.alone = !shared
    await this.readPosition(state)
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

  private async readPosition(state: StateStore): Promise<void> {
    this.position = await state.get<ChangePosition>(POSITIONS + this.history)
    if (this.position !== undefined) return
    const former = await state.get<ChangePosition>(FORMER_POSITION)
    this.takesFormer = former !== undefined && (this.alone || historyOf(former) === this.history)
    if (this.takesFormer) this.position = former
    else if (this.alone) await this.takeOver(state)
  }

  /** A database that was restored has a history of its own: how far rollups had come in the one before is where it begins, and all of that is looked at again. */
  private async takeOver(state: StateStore): Promise<void> {
    const [newest] = (await state.list<ChangePosition>({ prefix: POSITIONS, limit: PAGE })).toReversed()
    if (newest === undefined) return
    this.position = newest.value
    const former = `${PROGRESS}${newest.key.slice(POSITIONS.length)}/`
    const own = this.own('')
    for (;;) {
      const page = await state.list<KeptRollup>({ prefix: former, limit: PAGE })
      await state.transaction((tx) => {
        for (const { key, value } of page) {
          tx.put(own + key.slice(former.length), value)
          tx.delete(key)
        }
        if (page.length < PAGE) {
          tx.delete(newest.key)
          tx.put(POSITIONS + this.history, newest.value)
        }
      })
      if (page.length < PAGE) return
    }
  }

  private own(key: string): string {
    return `${PROGRESS}${this.history}/${key}`
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
    const found: Rollup[] = []
    for (let next = this.onTopOf([rollup]); next.length > 0; next = this.onTopOf(next)) found.push(...next)
    return found
  }

  private onTopOf(rollups: readonly Rollup[]): Rollup[] {
    return rollups.flatMap(({ definition: { namespace, target } }) => this.of(namespace, target))
  }

  /** How many rest on one another once there is another of this source and target. */
  private tiersWith({ namespace, source, target }: Definition): number {
    let tiers = 1
    for (let below = this.writerOf(namespace, source); below !== undefined; below = this.writerOf(namespace, below.definition.source)) tiers++
    for (let above = this.of(namespace, target); above.length > 0; above = this.onTopOf(above)) tiers++
    return tiers
  }

  /** @throws CONFLICT for a name or a target that is taken, INVALID_REQUEST for a cycle, RATE_LIMITED for one too many. */
  check(definition: Definition): void {
    const { namespace, name, source } = definition
    const own = this.list(namespace)
    requireApart(
      definition,
      own.map((rollup) => rollup.definition),
    )
    const refused = (code: 'RATE_LIMITED', cause: string) => refusal(name, code, cause)
    if (own.length >= this.limits.perNamespace)
      throw refused('RATE_LIMITED', `the namespace has ${this.limits.perNamespace}, and rollups.max_rollups_per_namespace is as many; delete one`)
    if (this.of(namespace, source).length >= this.limits.perSource)
      throw refused('RATE_LIMITED', `${this.limits.perSource} aggregate "${source}", and rollups.max_rollups_per_measurement is as many; delete one`)
    if (this.tiersWith(definition) > this.limits.tiers)
      throw refused(
        'RATE_LIMITED',
        `more than ${this.limits.tiers} would rest on one another, and rollups.max_tiers is as many; choose a source that is nearer to the raw data`,
      )
    if (this.size >= this.limits.inAll) throw refused('RATE_LIMITED', `the server has ${this.limits.inAll}, and rollups.max_rollups is as many; delete one`)
  }

  /** @param taken before which retention has taken points of the source. @throws as `check`. Durable when it resolves. */
  async create(definition: Definition, taken?: bigint): Promise<Rollup> {
    this.check(definition)
    const rollup = new Rollup(definition, this.limits.dirtyRanges)
    rollup.meet(taken, true)
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
      tx.delete(this.own(rollup.key))
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
    const entries = changed.map((rollup) => ({ rollup, version: rollup.version, need: rollup.need, floor: rollup.floor, kept: rollup.kept() }))
    return this.transact(async (tx) => {
      const known = await Promise.all(entries.map(({ rollup }) => tx.get<KeptRollup>(PREFIX + rollup.key)))
      // By another node, which may not have been heard of, or while this waited for its turn. Where there is none, all are known here.
      if (!this.alone) for (const { definition } of more) requireApart(definition, await definitionsOf(tx, definition.namespace))
      if (moved !== undefined) tx.put(POSITIONS + this.history, moved)
      for (const [i, { rollup, kept }] of entries.entries()) {
        const isNew = more.includes(rollup)
        if (isNew && rollup.deleted) throw taken(rollup.definition.name)
        if (rollup.deleted) continue
        // Another node has deleted it.
        if (!isNew && !isSame(known[i], rollup)) continue
        tx.put(this.own(rollup.key), kept)
        // What there was of before is here now.
        if (!isNew && !(this.takesFormer && known[i]?.until !== undefined)) continue
        tx.put(PREFIX + rollup.key, { definition: rollup.definition, dirty: [] } satisfies KeptRollup)
        if (isNew) tx.put(DEFINED + rollup.key, rollup.definition)
      }
    }).then(() => {
      if (moved !== undefined) this.position = moved
      for (const { rollup, version, need, floor } of entries) {
        this.written.set(rollup, version)
        rollup.saved(need, floor)
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
    const progress = new Map<string, KeptRollup>()
    for await (const { key, value } of this.allOf(state, this.own(''))) progress.set(key.slice(this.own('').length), value)
    for await (const { value } of this.allOf(state, PREFIX)) {
      const known = this.get(value.definition.namespace, value.definition.name)
      if (known !== undefined && isSame(value, known)) missing.delete(known)
      else this.takeUp(value, progress.get(keyOf(value.definition.namespace, value.definition.name)), made)
    }
    // Deleted by another node while this one was away.
    await this.forgetProgress(
      state,
      [...progress.keys()].filter((key) => !this.byKey.has(key)),
    )
    const gone = [...missing].filter(({ deleted }) => !deleted)
    for (const rollup of gone) this.forget(rollup)
    return gone.length
  }

  private async *allOf(state: StateStore, prefix: string): AsyncGenerator<StateEntry<KeptRollup>> {
    for (let start = prefix; ; ) {
      const page = await state.list<KeptRollup>({ prefix, limit: PAGE, start })
      yield* page
      if (page.length < PAGE) return
      start = `${page[page.length - 1].key}\0`
    }
  }

  /** @param keys of rollups that are gone, as far as is known. */
  private async forgetProgress(state: StateStore, keys: readonly string[]): Promise<void> {
    if (keys.length === 0) return
    await state.transaction(async (tx) => {
      for (const key of keys) if ((await tx.get(PREFIX + key)) === undefined) tx.delete(this.own(key))
    })
  }

  private async read(state: StateStore, keys: ReadonlySet<string>, made: (rollup: Rollup) => void): Promise<number> {
    let gone = 0
    for (const key of keys) {
      const own = key.slice(DEFINED.length)
      const kept = await state.get<KeptRollup>(PREFIX + own)
      const known = this.byKey.get(own)
      if (kept !== undefined && !isSame(kept, known)) this.takeUp(kept, await state.get<KeptRollup>(this.own(own)), made)
      else if (kept === undefined && known !== undefined && this.written.has(known)) {
        this.forget(known)
        await this.forgetProgress(state, [own])
        gone++
      }
    }
    return gone
  }

  private takeUp(kept: KeptRollup, progress: KeptRollup | undefined, made: (rollup: Rollup) => void): void {
    const { definition } = kept
    const former = this.takesFormer ? kept : { definition, dirty: [] }
    // That of another of the same name, which is gone, says nothing.
    const own = progress !== undefined && JSON.stringify(progress.definition) === JSON.stringify(definition) ? progress : former
    const rollup = Rollup.restore(own, this.limits.dirtyRanges)
    const known = this.byKey.get(rollup.key)
    if (known !== undefined) this.forget(known)
    this.add(rollup)
    // What is only there as it was is written anew before the place moves on.
    this.written.set(rollup, own === former && this.takesFormer ? rollup.version - 1 : rollup.version)
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

/** @throws CONFLICT for a name or a target that is taken, INVALID_REQUEST for a cycle. @param others of its namespace. */
function requireApart({ name, source, target }: Definition, others: readonly Definition[]): void {
  if (others.some((other) => other.name === name)) throw taken(name)
  const writers = new Map(others.map((other) => [other.target, other]))
  const writer = writers.get(target)
  if (writer !== undefined) throw refusal(name, 'CONFLICT', `"${target}" is the target of rollup "${writer.name}"; choose another target_measurement`)
  const seen = new Set<string>()
  for (let at: string | undefined = source; at !== undefined && !seen.has(at); at = writers.get(at)?.source) {
    if (at === target)
      throw refusal(
        name,
        'INVALID_REQUEST',
        `its source "${source}" is computed from its target "${target}", and so it would be computed from itself; choose another target_measurement`,
      )
    seen.add(at)
  }
}

/** In pages: definitions may be large. */
async function definitionsOf(state: StateReader, namespace: string): Promise<Definition[]> {
  const prefix = PREFIX + keyOf(namespace, '')
  const found: Definition[] = []
  for (let start = prefix; ; ) {
    const page = await state.list<KeptRollup>({ prefix, start, limit: FEW })
    for (const { value } of page) found.push(value.definition)
    if (page.length < FEW) return found
    start = `${page[page.length - 1].key}\0`
  }
}

const refusal = (name: string, code: 'CONFLICT' | 'INVALID_REQUEST' | 'RATE_LIMITED', cause: string): SvcError =>
  new SvcError(code, `cannot create rollup "${name}": ${cause}`)
const taken = (name: string): SvcError => refusal(name, 'CONFLICT', 'the name is taken; delete that rollup first, or choose another name')

const isSame = (kept: KeptRollup | undefined, rollup: Rollup | undefined): boolean => JSON.stringify(kept?.definition) === JSON.stringify(rollup?.definition)
