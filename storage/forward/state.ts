/**
 * What plugins remember, without a database: a file of JSON for each owner, replaced whole by each commit. For the few keys that an edge has; what would write
 * much belongs upstream. Layout: docs/formats/forward-queue.md.
 *
 * Invariants
 * - An owner is listed beside the files after its file is there, empty, and before anything is in it: a listed file that is missing was lost.
 */
import { readFileSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { SvcError } from 'svcdb/lib/errors'
import { replaceFile } from 'svcdb/lib/files'
import { MapState } from '../common/map-state.ts'
import { checkedText, checkedValue } from './checked-json.ts'
import { ownerOf, stateFileName } from './paths.ts'

export class FileState extends MapState {
  private readonly path: string
  /** The last commit; never rejects. */
  private committing: Promise<unknown> = Promise.resolve()

  private readonly owner: string
  private readonly owners: StateOwners

  /** @throws DATABASE_ERROR for a file that cannot be read, or was lost. */
  constructor(owner: string, owners: StateOwners) {
    const path = join(owners.folder, stateFileName(owner))
    super(read(path, owners.has(owner) ? owners.path : undefined))
    this.path = path
    this.owner = owner
    this.owners = owners
  }

  /** One after the other. */
  protected override commit(before: ReadonlyMap<string, unknown>, draft: ReadonlyMap<string, unknown>): Promise<boolean> {
    const commit = this.committing.then(async () => {
      if (this.entries !== before) return false
      const changed = draft.size !== before.size || [...draft].some(([key, value]) => before.get(key) !== value)
      if (changed) {
        if (!this.owners.has(this.owner)) {
          await replaceFile(this.path, textOf(before))
          await this.owners.add(this.owner)
        }
        await replaceFile(this.path, textOf(draft))
        this.entries = draft
      }
      return true
    })
    this.committing = commit.catch(() => {})
    return commit
  }
}

/** Who has a file, kept beside the folder of the files. */
export class StateOwners {
  readonly folder: string
  readonly path: string
  private owners: ReadonlySet<string>
  /** The last addition; never rejects. */
  private adding: Promise<unknown> = Promise.resolve()

  private constructor(folder: string, path: string, owners: ReadonlySet<string>) {
    this.folder = folder
    this.path = path
    this.owners = owners
  }

  /** Where no list is kept those count that have a file. @throws DATABASE_ERROR for one that cannot be read; NodeJS.ErrnoException. */
  static async open(folder: string, path: string): Promise<StateOwners> {
    let text: string
    try {
      text = readFileSync(path, 'utf8')
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw unlisted(path, error as Error)
      const owners = (await readdir(folder)).flatMap((name) => ownerOf(name) ?? [])
      await replaceFile(path, listOf(owners))
      return new StateOwners(folder, path, new Set(owners))
    }
    try {
      return new StateOwners(folder, path, new Set((checkedValue(text) as { owners: string[] }).owners))
    } catch (error) {
      throw unlisted(path, error as Error)
    }
  }

  has(owner: string): boolean {
    return this.owners.has(owner)
  }

  all(): string[] {
    return [...this.owners].sort()
  }

  /** One after the other. Durable when it resolves. */
  add(owner: string): Promise<void> {
    const added = this.adding.then(async () => {
      const owners = new Set([...this.owners, owner])
      await replaceFile(this.path, listOf([...owners]))
      this.owners = owners
    })
    this.adding = added.catch(() => {})
    return added
  }
}

const textOf = (entries: ReadonlyMap<string, unknown>): string => checkedText({ version: 1, entries: [...entries] })
const listOf = (owners: readonly string[]): string => checkedText({ version: 1, owners: owners.toSorted() })

/** @param list that has the owner in it. */
function read(path: string, list: string | undefined): ReadonlyMap<string, unknown> {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw unreadable(path, error as Error)
    if (list === undefined) return new Map()
    throw new SvcError('DATABASE_ERROR', `cannot read state file "${path}": it is missing; restore it from a backup, or remove "${list}" to begin without`)
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
  new SvcError(
    'DATABASE_ERROR',
    `cannot read state file "${path}": ${cause.message}; restore it from a backup, or move it and "state-owners.json" away to begin without`,
    { cause },
  )

const unlisted = (path: string, cause: Error): SvcError =>
  new SvcError(
    'DATABASE_ERROR',
    `cannot read "${path}", which lists whose state there is: ${cause.message}; restore it from a backup, or remove it to go on with the files in "state"`,
    { cause },
  )
