/**
 * All models, and what is kept of them in the state store: a record each, and a state of each version under a key of its own, with its checksum in the record.
 * What is in memory is what is durable: a record changes here once its transaction is committed.
 */
import { createHash } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import { type Following, followState, type StateStore } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import type { Trained } from './compute.ts'
import { type Definition, keyOf } from './definition.ts'
import type { KeptState } from './kinds.ts'
import { type KeptModel, type Version, withVersion } from './record.ts'

const MODELS = 'model/'
const STATES = 'state/'
const PAGE = 200

interface RegistryLimits {
  inAll: number
  versions: number
  /** Namespaces are tenants: one leaves a quarter to the others. */
  apart?: boolean
}

/** A model in memory; `kept` is replaced as a whole. */
export interface ModelEntry {
  readonly key: string
  kept: KeptModel
  /** False once it is deleted. */
  alive: boolean
}

export class Registry {
  private readonly limits: RegistryLimits
  private readonly byKey = new Map<string, ModelEntry>()
  private readonly countOf = new Map<string, number>()
  private readonly last = new WeakMap<ModelEntry, Promise<unknown>>()
  private state: StateStore | undefined
  private following: Following | undefined

  constructor(limits: RegistryLimits) {
    this.limits = limits
  }

  /** Reads all, and then what other processes change. @param failed is told what kept it from that. */
  async open(state: StateStore, failed: (error: Error) => void): Promise<void> {
    this.state = state
    this.following = await followState(state, {
      prefixes: [MODELS],
      apply: (keys) => (keys === undefined ? this.readAll(state) : this.readSome(state, keys)),
      failed,
    })
  }

  /** Nothing comes from other processes any more. */
  async close(): Promise<void> {
    await this.following?.stop()
  }

  private async readAll(state: StateStore): Promise<void> {
    const before = new Set(this.byKey.keys())
    for (let start: string | undefined; ; ) {
      const page = await state.list<KeptModel>({ prefix: MODELS, limit: PAGE, ...(start === undefined ? {} : { start }) })
      for (const { key, value } of page) {
        before.delete(key.slice(MODELS.length))
        await this.take(state, key.slice(MODELS.length), value)
      }
      if (page.length < PAGE) break
      start = `${page[page.length - 1].key}\0`
    }
    await this.readSome(state, new Set([...before].map((key) => MODELS + key)))
  }

  private async readSome(state: StateStore, keys: ReadonlySet<string>): Promise<void> {
    for (const key of keys) await this.take(state, key.slice(MODELS.length), undefined)
  }

  /** Takes over a record as it is kept. @param read for one that is not known here; one that is known is read in its turn. */
  private async take(state: StateStore, key: string, read: KeptModel | undefined): Promise<void> {
    const known = this.byKey.get(key)
    if (known === undefined) {
      const kept = read ?? (await state.get<KeptModel>(MODELS + key))
      if (kept !== undefined && !this.byKey.has(key)) this.add({ key, kept, alive: true })
      return
    }
    await this.next(known, async () => {
      const kept = await state.get<KeptModel>(MODELS + key)
      if (kept?.created_at === known.kept.created_at) known.kept = kept
      // One that is being created is not there yet, unless another node was faster.
      else if (kept !== undefined || known.kept.versions.length > 0) this.remove(known)
      // Deleted and made anew.
      if (kept !== undefined && !this.byKey.has(key)) this.add({ key, kept, alive: true })
    })
  }

  get size(): number {
    return this.byKey.size
  }

  all(): IterableIterator<ModelEntry> {
    return this.byKey.values()
  }

  /** By measurement and name. */
  list(namespace: string, measurement?: string): ModelEntry[] {
    const found = [...this.byKey.values()].filter(
      ({ kept: { definition } }) => definition.namespace === namespace && (measurement === undefined || definition.measurement === measurement),
    )
    const order = ({ kept: { definition } }: ModelEntry): string => `${definition.measurement}\0${definition.name}`
    return found.sort((a, b) => (order(a) < order(b) ? -1 : 1))
  }

  get(namespace: string, measurement: string, name: string): ModelEntry | undefined {
    return this.byKey.get(keyOf(namespace, measurement, name))
  }

  count(namespace: string): number {
    return this.countOf.get(namespace) ?? 0
  }

  /** @param quota of the namespace; 0 = none. @throws CONFLICT, RATE_LIMITED. */
  check({ namespace, measurement, name }: Definition, quota: number, quotaOf: string): void {
    const refuse = (code: 'CONFLICT' | 'RATE_LIMITED', cause: string) => new SvcError(code, `cannot create model "${name}" on "${measurement}": ${cause}`)
    if (this.get(namespace, measurement, name) !== undefined)
      throw refuse('CONFLICT', 'there is one of this name; delete it first, retrain it, or choose another name')
    if (quota > 0 && this.count(namespace) >= quota)
      throw refuse(
        'RATE_LIMITED',
        `max_models of ${quota} is reached; delete one, or have it raised with PUT /api/v1/namespaces/${quotaOf}/quota {"max_models": ...}`,
      )
    const { inAll, apart } = this.limits
    const share = Math.ceil((inAll * 3) / 4)
    if (apart === true && this.count(namespace) >= share)
      throw refuse('RATE_LIMITED', `one namespace has at most three quarters, ${share}, of analytics.max_models = ${inAll}; delete one, or have it raised`)
    if (this.size >= inAll) throw refuse('RATE_LIMITED', `the server has ${this.size} models, and analytics.max_models is as many; delete one, or raise it`)
  }

  /** @throws CONFLICT where its forecasts would be the same points as those of another model: points have its name, and not what it is of. */
  private requireOwnPoints({ namespace, measurement, name, forecast, tags }: Definition): void {
    if (forecast === undefined) return
    const other = this.list(namespace).find(({ kept: { definition: each } }) => {
      return each.name === name && each.forecast?.target === forecast.target && isDeepStrictEqual({ ...each.tags }, { ...tags })
    })
    if (other === undefined) return
    throw new SvcError(
      'CONFLICT',
      `cannot create model "${name}" on "${measurement}": that of the name on "${other.kept.definition.measurement}" has forecasts of series with the same tags written into "${forecast.target}", too; choose another name or target_measurement`,
    )
  }

  /** Makes a model with its first version; durable when it resolves. @param definition has all the tags of its series. @throws as `check`, and CONFLICT. */
  async create(definition: Definition, trained: Trained, { found, now, check }: { found: number; now: number; check: () => void }): Promise<ModelEntry> {
    check()
    this.requireOwnPoints(definition)
    const empty: KeptModel = { definition, created_at: now, next_version: 1, versions: [] }
    const entry: ModelEntry = { key: keyOf(definition.namespace, definition.measurement, definition.name), kept: empty, alive: true }
    // At once: what is created meanwhile is counted against the same bounds.
    this.add(entry)
    try {
      await this.putVersion(entry, trained, { found, now, asChampion: true })
      return entry
    } catch (error) {
      this.remove(entry)
      throw error
    }
  }

  /** Adds a version to a model that is there still. @param change what else changes in the record; undefined = the version is not wanted any more. */
  async putVersion(
    entry: ModelEntry,
    trained: Trained,
    {
      found,
      now,
      asChampion,
      change = (kept) => kept,
    }: { found: number; now: number; asChampion: boolean; change?: (kept: KeptModel) => KeptModel | undefined },
  ): Promise<void> {
    return this.next(entry, async () => {
      const options = { checksum: checksumOf(trained.state.text), now, found, most: this.limits.versions, asChampion }
      const isNew = entry.kept.versions.length === 0
      const result = await this.store.transaction(async (tx) => {
        const stored = await tx.get<KeptModel>(MODELS + entry.key)
        if (isNew ? stored !== undefined : stored?.created_at !== entry.kept.created_at) return undefined
        const { model, version, gone } = withVersion(stored ?? entry.kept, trained, options)
        const kept = change(model)
        if (kept === undefined) return stored
        tx.put(MODELS + entry.key, kept)
        tx.put(stateKey(entry, version.version), trained.state.text)
        for (const each of gone) tx.delete(stateKey(entry, each))
        return kept
      })
      if (result !== undefined) {
        entry.kept = result
        return
      }
      const { measurement, name } = entry.kept.definition
      if (isNew) throw new SvcError('CONFLICT', `cannot create model "${name}" on "${measurement}": there is one of this name, made by another node`)
      this.remove(entry)
      throw new SvcError('NOT_FOUND', `cannot train model "${name}" on "${measurement}": it was deleted meanwhile`)
    })
  }

  /** Changes the record of a model that is there still. */
  async update(entry: ModelEntry, change: (kept: KeptModel) => KeptModel): Promise<void> {
    await this.next(entry, async () => {
      if (!entry.alive) return
      const kept = await this.store.transaction(async (tx) => {
        const stored = await tx.get<KeptModel>(MODELS + entry.key)
        if (stored?.created_at !== entry.kept.created_at) return undefined
        const changed = change(stored)
        tx.put(MODELS + entry.key, changed)
        return changed
      })
      if (kept === undefined) this.remove(entry)
      else entry.kept = kept
    })
  }

  /** @throws DATABASE_ERROR when it is not what was stored. */
  async readState(entry: ModelEntry, { version, kind, checksum }: Version): Promise<Omit<KeptState, 'module'>> {
    const text = await this.store.get<string>(stateKey(entry, version))
    if (text === undefined || checksumOf(text) !== checksum) {
      const { measurement, name } = entry.kept.definition
      const what = text === undefined ? 'is missing' : 'does not have the checksum that it was stored with'
      throw new SvcError('DATABASE_ERROR', `cannot use version ${version} of model "${name}" on "${measurement}": its state ${what}; retrain the model`)
    }
    return { kind, text }
  }

  async delete(entry: ModelEntry): Promise<void> {
    await this.next(entry, async () => {
      if (!entry.alive) return
      await this.store.transaction(async (tx) => {
        const { versions } = (await tx.get<KeptModel>(MODELS + entry.key)) ?? entry.kept
        tx.delete(MODELS + entry.key)
        for (const { version } of versions) tx.delete(stateKey(entry, version))
      })
      this.remove(entry)
    })
  }

  /** Changes of a model one after the other: each begins from what the one before has made durable. */
  private next<T>(entry: ModelEntry, change: () => Promise<T>): Promise<T> {
    const done = (this.last.get(entry) ?? Promise.resolve()).then(change)
    this.last.set(
      entry,
      done.catch(() => {}),
    )
    return done
  }

  private get store(): StateStore {
    if (this.state === undefined) throw new SvcError('DATABASE_CLOSED', 'models are not read yet; retry when /ready answers 200')
    return this.state
  }

  private add(entry: ModelEntry): void {
    const { namespace } = entry.kept.definition
    this.byKey.set(entry.key, entry)
    this.countOf.set(namespace, this.count(namespace) + 1)
  }

  private remove(entry: ModelEntry): void {
    if (!entry.alive) return
    const { namespace } = entry.kept.definition
    entry.alive = false
    if (this.byKey.get(entry.key) === entry) this.byKey.delete(entry.key)
    const left = this.count(namespace) - 1
    if (left > 0) this.countOf.set(namespace, left)
    else this.countOf.delete(namespace)
  }
}

const stateKey = ({ key }: ModelEntry, version: number): string => `${STATES}${key}/${version}`
const checksumOf = (text: string): string => createHash('sha256').update(text).digest('hex')
