/**
 * What plugins remember, without a database: a file of JSON for each owner, replaced whole by each commit. For the few keys that an edge has; what would write
 * much belongs upstream.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { StateEntry, StateRange, StateStore, StateTransaction } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { replaceFile } from 'svcdb/lib/files'
import { listIn, runOn } from '../common/state-map.ts'
import { stateFileName } from './paths.ts'

/** Times that a body runs while others commit. */
const MAX_ATTEMPTS = 1000

export class FileState implements StateStore {
  private readonly path: string
  /** Never changed: a commit puts another one in its place. */
  private entries: ReadonlyMap<string, unknown>
  /** The last commit; never rejects. */
  private committing: Promise<unknown> = Promise.resolve()

  /** @throws DATABASE_ERROR for a file that cannot be read. */
  constructor(folder: string, owner: string) {
    this.path = join(folder, stateFileName(owner))
    this.entries = read(this.path)
  }

  async get<T>(key: string): Promise<T | undefined> {
    return structuredClone(this.entries.get(key)) as T | undefined
  }

  async list<T>(range: StateRange = {}): Promise<StateEntry<T>[]> {
    return listIn<T>(this.entries, range)
  }

  async transaction<T>(body: (tx: StateTransaction) => T | Promise<T>): Promise<T> {
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const before = this.entries
      const draft = new Map(before)
      const result = await runOn(draft, body)
      if (await this.commit(before, draft)) return result
    }
    throw new SvcError('CONFLICT', 'cannot commit a state transaction: others came first each time; try again')
  }

  /** One after the other. @returns false when others came first. */
  private commit(before: ReadonlyMap<string, unknown>, draft: ReadonlyMap<string, unknown>): Promise<boolean> {
    const commit = this.committing.then(async () => {
      if (this.entries !== before) return false
      const changed = draft.size !== before.size || [...draft].some(([key, value]) => before.get(key) !== value)
      if (changed) {
        await replaceFile(this.path, JSON.stringify({ version: 1, entries: [...draft] }))
        this.entries = draft
      }
      return true
    })
    this.committing = commit.catch(() => {})
    return commit
  }
}

function read(path: string): ReadonlyMap<string, unknown> {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return new Map()
    throw unreadable(path, error as Error)
  }
  try {
    const { version, entries } = JSON.parse(text) as { version: number; entries: [string, unknown][] }
    if (version !== 1) throw new Error(`its version is ${version}`)
    return new Map(entries)
  } catch (error) {
    throw unreadable(path, error as Error)
  }
}

const unreadable = (path: string, cause: Error): SvcError =>
  new SvcError('DATABASE_ERROR', `cannot read state file "${path}": ${cause.message}; restore it from a backup, or move it away to begin without`, { cause })
