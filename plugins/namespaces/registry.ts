/**
 * The definitions, in memory and in the state store. A change is made to a copy, committed, and takes effect when it is durable; changes that come while
 * one is being committed share the next transaction. Only what changed is written.
 */
import { importState, type StateStore } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { type Definition, decode, definitionOf, storedOf } from './definition.ts'

/** Of the file of older versions: far above what a million namespaces take. */
const MAX_FILE_BYTES = 2 ** 30
const PREFIX = 'namespace/'

export type Change = (definitions: Map<string, Definition>) => void

interface Waiting {
  change: Change
  resolve(): void
  reject(error: unknown): void
}

export class Registry {
  private definitions = new Map<string, Definition>()
  private waiting: Waiting[] = []
  private writing = false
  private state: StateStore | undefined

  /**
   * Call once, before anything else. @param legacy the file in which older versions kept the definitions, which is imported.
   * @throws SvcError naming the file or the entry that cannot be read.
   */
  async open(state: StateStore, legacy: string | undefined): Promise<void> {
    const read = (text: string) => {
      const definitions = decode(text)
      return (tx: { put(key: string, value: unknown): void }) => {
        for (const definition of definitions) tx.put(PREFIX + definition.name, storedOf(definition))
      }
    }
    await importState(state, { path: legacy, maxBytes: MAX_FILE_BYTES, what: 'namespaces file', read })
    for (const { key, value } of await state.list({ prefix: PREFIX })) this.definitions.set(key.slice(PREFIX.length), this.read(key, value))
    this.state = state
  }

  get size(): number {
    return this.definitions.size
  }

  get(name: string): Definition | undefined {
    return this.definitions.get(name)
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
    while (this.waiting.length > 0) {
      const next = new Map(this.definitions)
      const made = this.waiting.splice(0).filter(({ change, reject }) => {
        try {
          change(next)
          return true
        } catch (error) {
          reject(error)
          return false
        }
      })
      if (made.length === 0) continue
      try {
        await this.store(next)
        this.definitions = next
        for (const { resolve } of made) resolve()
      } catch (error) {
        for (const { reject } of made) reject(error)
      }
    }
    this.writing = false
  }

  private async store(next: ReadonlyMap<string, Definition>): Promise<void> {
    const before = this.definitions
    await (this.state as StateStore).transaction((tx) => {
      for (const [name, definition] of next) if (before.get(name) !== definition) tx.put(PREFIX + name, storedOf(definition))
      for (const name of before.keys()) if (!next.has(name)) tx.delete(PREFIX + name)
    })
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
