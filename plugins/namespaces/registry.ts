/**
 * The definitions, in memory and in their file. A change is made to a copy, written, and takes effect when it is durable; changes that come while one
 * is being written share the next write.
 */
import { replaceFile } from '../../kernel/atomic-file.ts'
import { readBounded } from '../../kernel/bounded-file.ts'
import { type Definition, decode, encode } from './definition.ts'

/** Far above what a million namespaces take. */
const MAX_FILE_BYTES = 2 ** 30

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
  private readonly path: string | undefined

  /** @param path undefined = nothing is kept. */
  constructor(path: string | undefined) {
    this.path = path
  }

  /** @throws Error naming the file when it cannot be read or is damaged. */
  async open(): Promise<void> {
    if (this.path === undefined) return
    try {
      const text = (await readBounded(this.path, MAX_FILE_BYTES)).toString()
      this.definitions = new Map(decode(text).map((definition) => [definition.name, definition]))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return
      throw new Error(
        `cannot open the namespaces file "${this.path}": ${(error as Error).message}; mend it or put a copy back: without it, quotas and deletes under way would be forgotten`,
        { cause: error },
      )
    }
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
        if (this.path !== undefined) await replaceFile(this.path, encode(next.values()))
        this.definitions = next
        for (const { resolve } of made) resolve()
      } catch (error) {
        for (const { reject } of made) reject(error)
      }
    }
    this.writing = false
  }
}
