/** Metadata on disk: read at start and when other nodes have written some, written some seconds after it changed and at stop. */
import { type Following, followState, type Logger, type StateStore } from 'svcdb'
import type { MetadataStore, MetricRecord } from './metadata.ts'

const PREFIX = 'metadata/'
/** Records of one transaction, so that none holds up the main loop. */
const SLICE = 1000

export class MetadataKeeper {
  private readonly store: MetadataStore
  private readonly saveMs: number
  private readonly log: Logger
  private state: StateStore | undefined
  private following: Following | undefined
  private timer: NodeJS.Timeout | undefined
  private saving: Promise<void> = Promise.resolve()

  constructor(store: MetadataStore, saveMs: number, log: Logger) {
    this.store = store
    this.saveMs = saveMs
    this.log = log
  }

  async start(state: StateStore): Promise<void> {
    this.following = await followState(state, {
      prefixes: [PREFIX],
      apply: async (keys) => {
        if (keys !== undefined) {
          const records = await Promise.all([...keys].map(async (key) => ({ key, value: await state.get<MetricRecord>(key) })))
          for (const { key, value } of records) this.store.take(key.slice(PREFIX.length), value)
          return
        }
        const kept = await state.list<MetricRecord>({ prefix: PREFIX })
        if (this.state === undefined) this.store.load(kept.map(({ value }) => value))
        else for (const { key, value } of kept) this.store.take(key.slice(PREFIX.length), value)
        this.state = state
      },
      failed: (error) => this.log.warn({ err: error }, 'cannot read which metadata other nodes have taken; it is tried again'),
    })
  }

  /** Call when there may be changes. */
  schedule(): void {
    if (this.timer !== undefined || this.store.changed.size === 0) return
    this.timer = setTimeout(() => {
      this.timer = undefined
      void this.save()
    }, this.saveMs)
    this.timer.unref()
  }

  /** Resolves when all that has changed so far is on disk, or has failed to get there. */
  async save(): Promise<void> {
    this.saving = this.saving.then(() => this.saveNow())
    return this.saving
  }

  /** Forgets a namespace; durable when it resolves. @throws what the storage throws: it may be called again. */
  async forget(namespace: string): Promise<void> {
    // Behind what is being saved, which may have records of it.
    await this.save()
    this.store.forget(namespace)
    const prefix = PREFIX + this.store.prefixOf(namespace)
    await this.state?.transaction(async (tx) => {
      for (const { key } of await tx.list({ prefix })) tx.delete(key)
    })
  }

  /** Forgets what is in memory of a namespace that another node has removed. @throws what the storage throws: it may be called again. */
  async forgetHere(namespace: string): Promise<void> {
    // What cannot be saved is marked as changed again.
    await this.saving
    this.store.forget(namespace)
    // What the next of that name has put away by now is its own.
    const kept = (await this.state?.list<MetricRecord>({ prefix: PREFIX + this.store.prefixOf(namespace) })) ?? []
    for (const { key, value } of kept) this.store.take(key.slice(PREFIX.length), value)
  }

  async stop(): Promise<void> {
    clearTimeout(this.timer)
    this.timer = undefined
    await this.following?.stop()
    await this.save()
  }

  private async saveNow(): Promise<void> {
    const { state, store } = this
    if (state === undefined) return
    const changed = store.takeChanged()
    for (let from = 0; from < changed.length; from += SLICE) {
      const slice = changed.slice(from, from + SLICE)
      try {
        await state.transaction((tx) => {
          for (const { key, record } of slice) {
            if (record === undefined) tx.delete(PREFIX + key)
            else tx.put(PREFIX + key, record)
          }
        })
      } catch (error) {
        // It is in memory, and senders repeat it: try again with the next change.
        for (const { key } of changed.slice(from)) store.changed.add(key)
        this.log.warn({ err: error, metrics: changed.length - from }, 'cannot save metadata of metrics')
        return
      }
    }
  }
}
