/**
 * What plugins remember, without a database: a file of JSON for each owner, replaced whole by each commit. For the few keys that an edge has; what would write
 * much belongs upstream.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { SvcError } from 'svcdb/lib/errors'
import { replaceFile } from 'svcdb/lib/files'
import { MapState } from '../common/map-state.ts'
import { checkedText, checkedValue } from './checked-json.ts'
import { stateFileName } from './paths.ts'

export class FileState extends MapState {
  private readonly path: string
  /** The last commit; never rejects. */
  private committing: Promise<unknown> = Promise.resolve()

  /** @throws DATABASE_ERROR for a file that cannot be read. */
  constructor(folder: string, owner: string) {
    const path = join(folder, stateFileName(owner))
    super(read(path))
    this.path = path
  }

  /** One after the other. */
  protected override commit(before: ReadonlyMap<string, unknown>, draft: ReadonlyMap<string, unknown>): Promise<boolean> {
    const commit = this.committing.then(async () => {
      if (this.entries !== before) return false
      const changed = draft.size !== before.size || [...draft].some(([key, value]) => before.get(key) !== value)
      if (changed) {
        await replaceFile(this.path, checkedText({ version: 1, entries: [...draft] }))
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
    const { version, entries } = checkedValue(text) as { version: number; entries: [string, unknown][] }
    if (version !== 1) throw new Error(`its version is ${version}`)
    return new Map(entries)
  } catch (error) {
    throw unreadable(path, error as Error)
  }
}

const unreadable = (path: string, cause: Error): SvcError =>
  new SvcError('DATABASE_ERROR', `cannot read state file "${path}": ${cause.message}; restore it from a backup, or move it away to begin without`, { cause })
