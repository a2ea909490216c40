/** All rollups, and what is kept of them: one entry each in the state store, and the place of the change cursor, written together. */
import type { ChangePosition, StateStore } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import type { Definition } from './definition.ts'
import { type KeptRollup, keyOf, Rollup } from './rollup.ts'

const POSITION = 'position'
const PREFIX = 'rollup/'
const PAGE = 256

export interface RegistryLimits {
  perNamespace: number
  perSource: number
  inAll: number
  dirtyRanges: number
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
  private saving: Promise<void> = Promise.resolve()
  /** Up to where changes were seen, as last written. */
  position: ChangePosition | undefined

  constructor(limits: RegistryLimits) {
    this.limits = limits
  }

  async open(state: StateStore): Promise<void> {
    this.state = state
    this.position = await state.get<ChangePosition>(POSITION)
    for (let start: string | undefined; ; ) {
      const page = await state.list<KeptRollup>({ prefix: PREFIX, limit: PAGE, ...(start === undefined ? {} : { start }) })
      for (const { value } of page) {
        const rollup = Rollup.restore(value, this.limits.dirtyRanges)
        this.add(rollup)
        this.written.set(rollup, rollup.version)
      }
      if (page.length < PAGE) return
      start = `${page[page.length - 1].key}\0`
    }
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
    if (this.get(namespace, name) !== undefined) throw refused('CONFLICT', 'the name is taken; delete that rollup first, or choose another name')
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
    await this.transact((tx) => tx.delete(PREFIX + rollup.key))
    rollup.deleted = true
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
    return this.transact((tx) => {
      if (moved !== undefined) tx.put(POSITION, moved)
      for (const { rollup, kept } of entries) if (!rollup.deleted) tx.put(PREFIX + rollup.key, kept)
    }).then(() => {
      if (moved !== undefined) this.position = moved
      for (const { rollup, version, need } of entries) {
        this.written.set(rollup, version)
        rollup.saved(need)
      }
    })
  }

  private transact(body: (tx: { put(key: string, value: unknown): void; delete(key: string): void }) => void): Promise<void> {
    const { state } = this
    if (state === undefined) throw new SvcError('DATABASE_CLOSED', 'cannot keep rollups: the node is starting; retry in a moment')
    const done = this.saving.catch(() => {}).then(() => state.transaction(body))
    this.saving = done.catch(() => {})
    return done
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
    const { namespace, source, target } = rollup.definition
    this.byKey.delete(rollup.key)
    this.byTarget.delete(`${namespace}\0${target}`)
    const sourceKey = `${namespace}\0${source}`
    const without = (list: readonly Rollup[] | undefined) => (list ?? []).filter((other) => other !== rollup)
    const [ofSource, ofNamespace] = [without(this.bySource.get(sourceKey)), without(this.byNamespace.get(namespace))]
    if (ofSource.length === 0) this.bySource.delete(sourceKey)
    else this.bySource.set(sourceKey, ofSource)
    if (ofNamespace.length === 0) this.byNamespace.delete(namespace)
    else this.byNamespace.set(namespace, ofNamespace)
  }
}
